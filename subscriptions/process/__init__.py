"""What a process holds besides its requests: counts written every second, and the fail points of fault tests."""
