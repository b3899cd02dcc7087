"""A policy file: strict YAML, its keys, and where each of its strings stands."""
