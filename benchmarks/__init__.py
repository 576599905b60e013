"""How close to the machine? Every figure is taken beside a bare loop in the same run, because machines are noisy."""
