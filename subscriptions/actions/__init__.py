"""What an interface (API, console, portal, command) may change about subscriptions, one function for each.

Every function takes an `actor` and a `why`, does its work and writes one audit entry in one transaction. It writes none
where nothing changed. Interfaces call these, never the functions below that do the work alone.
"""
