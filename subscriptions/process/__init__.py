"""What a process holds for all of its work: counts written every second, the id of the request in hand, and the fail
points of fault tests."""
