"""Moving in and out: consumers, endpoints and event types as a file of JSON Lines (docs/moving.md)."""
