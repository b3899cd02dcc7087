"""The host's side of a guard program: its header, its recorded calls, what it must ask, what may run."""
