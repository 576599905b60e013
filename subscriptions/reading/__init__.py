"""How what is asked for is read: the times somebody wrote, and lists page by page."""
