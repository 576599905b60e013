"""Counts per minute, their sums by hour and day, and the figures that pages and the API read from them."""
