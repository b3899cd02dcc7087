"""The backends of models, a file each."""
