"""Limits on requests, the Redis they may do without, and callers that share one piece of work."""
