"""A policy file: strict YAML, its keys, and where each of its strings stands.

A rule that is misread protects nothing. So the YAML is a subset without surprises, an unknown key is an error that
names the nearest one, and every value knows its line.
"""
