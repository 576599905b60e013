"""`make soak`: load near the limit for half an hour, with receivers that fail and hang, and what that does to memory,
latency, tables and backlog."""
