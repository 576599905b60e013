"""A statement as it is sent: without what is in it for its readers.

Of a statement of up to 4,096 characters psycopg remembers where its parameters are. In a longer one it looks for them
each time, which takes it longer than all the rest.
"""

import re

_COMMENT = re.compile(r"--[^\n]*")


def compact(text: str) -> str:
    """Without comments, and with single blanks. A text in quotes may hold single blanks, too, but no two hyphens."""
    return " ".join(_COMMENT.sub("", text).split())
