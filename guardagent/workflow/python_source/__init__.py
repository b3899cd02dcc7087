"""Python read without running it: evaluation, functions, whole programs."""
