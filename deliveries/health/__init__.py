"""An endpoint's health: the circuit breaker and what a run of answers means for it."""
