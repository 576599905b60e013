"""What happened, counted without losing any of it: see docs/metrics.md."""
