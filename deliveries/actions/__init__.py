"""What an interface (API, console, portal, command) may change about deliveries and endpoints, one function for each.

Every function takes an `actor` and a `why`, does its work guarded by the state it was seen in, and writes one audit
entry in one transaction. It writes none where nothing changed. Interfaces call these, never the steps below them.
`NothingDone` says in words why nothing was done.
"""


class NothingDone(Exception):
    """It is not what it was a moment ago: somebody else was faster, or the engine. Says what it is now."""
