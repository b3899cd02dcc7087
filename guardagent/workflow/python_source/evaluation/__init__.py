"""Reads Python code without running it: what a function can return, where it leads to, whom it asks.

An expression comes down to the values that it can have (`values.py`), of names that are looked up in scopes
(`scope.py`): the live globals and cells of a function, or the syntax tree of a file. `evaluate.py` does the work.
"""
