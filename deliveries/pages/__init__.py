"""What the pages of console and portal share: forms that do their work once, and things that are shown once."""
