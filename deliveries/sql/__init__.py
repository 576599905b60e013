"""How statements and their parameters are sent: arrays in their binary form, statements without comments."""
