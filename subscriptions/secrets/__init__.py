"""Secrets at rest: sealing, what of an endpoint is sealed, secrets that callers bring, results shown once, new keys."""
