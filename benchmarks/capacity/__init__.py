"""From measured costs to machines: a fit, a simulation of the system, and how far both can be believed."""
