"""Who may do what: callers, scopes, and the tree of keys that made other keys."""
