"""What a process holds for all of its work: counts written every second, the id of the request in hand, the fail points
of fault tests, and what is done last."""
