"""Reads policy files: strict YAML, a table of keys, and the line of every value.

A misread rule protects nothing. Only a strict subset of YAML is accepted, an unknown key is an error that names the
nearest known one, and every value keeps its line.
"""
