"""The buckets in which times are counted, for charts and for /metrics alike."""

# Upper ends (milliseconds); one more bucket takes what is above the last.
BOUNDS_MS = (
    5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 7500, 10_000, 20_000, 30_000,
    60_000, 120_000, 300_000, 600_000, 1_800_000, 7_200_000, 36_000_000, 86_400_000,
)  # fmt: skip
BUCKETS = len(BOUNDS_MS) + 1
