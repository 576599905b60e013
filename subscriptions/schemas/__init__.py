"""JSON Schemas of event types: compiled, counted for what checking them costs, and bounded."""
