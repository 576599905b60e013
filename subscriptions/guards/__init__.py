"""What may not leave: URLs and addresses that are refused, headers that are ours."""
