"""What a measure needs around it: producers, receivers, rows to start from, processes that run beside."""
