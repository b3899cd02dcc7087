"""A guard program written by a model for one run: plan, code, debug, votes."""
