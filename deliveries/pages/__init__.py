"""What the pages of console and portal share: lists page by page, a delivery's story, charts, forms that do their work
once, and things that are shown once. Console and portal know these, and nothing of each other."""
