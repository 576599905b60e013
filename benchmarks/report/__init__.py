"""From figures to what people read: arithmetic, targets, tables, plots, the generated parts of the docs."""
