"""What happens by the clock: expiry, warnings, retention, announcements, and the heartbeat of each process."""
