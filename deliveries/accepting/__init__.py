"""Around `ingest.py`: group commit in front of it; the cache, the catalogue and the statement that stores behind it."""
