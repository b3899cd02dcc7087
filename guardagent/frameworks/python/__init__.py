"""Plain Python functions."""
