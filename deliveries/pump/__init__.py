"""Behind `deliver.py`: whose turn it is, slots, one attempt, the way out to receivers, and settling what came back."""
