"""The sources of values."""
