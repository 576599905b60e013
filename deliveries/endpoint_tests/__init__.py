"""What is sent outside the queue on request: test events, check-ups, and the signature debugger."""
