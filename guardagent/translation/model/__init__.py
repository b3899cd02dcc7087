"""Requests to a model: a prompt, its answer, and another attempt if the answer cannot be read.

requests   asks, counts and limits
answers    reads the YAML or JSON block of an answer
"""
