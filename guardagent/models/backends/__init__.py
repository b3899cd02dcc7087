"""The model backends, one per file."""
