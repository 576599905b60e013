"""Behind `replay.py`: fair turns among jobs, and what became of the deliveries of a job."""
