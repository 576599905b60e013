"""Behind `ingest.py`: what is known of consumers and types, group commit, and the statement that stores events."""
