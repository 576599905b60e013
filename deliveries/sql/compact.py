"""A statement as it is sent: without what is in it for its readers.

Of a statement of up to 4,096 characters psycopg remembers where its parameters are. In a longer one it looks for them
each time, which takes it longer than all the rest.
"""

import re

_COMMENT = re.compile(r"--[^\n]*")
# After an opening bracket, before a closing one, after a comma.
_NEEDLESS = re.compile(r"(?<=[(,]) | (?=[)])")


def compact(text: str) -> str:
    """Without comments, and with no more blanks than needed. A text in quotes may hold single blanks, too, but no two
    hyphens, and no blank beside a bracket or a comma."""
    return _NEEDLESS.sub("", " ".join(_COMMENT.sub("", text).split()))
