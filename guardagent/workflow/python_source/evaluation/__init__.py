"""Evaluates Python expressions without running them.

An expression has a set of possible values (`values.py`). Names are looked up in scopes (`scope.py`): the live globals
and cells of a function, or the syntax tree of a file. `evaluator.py` evaluates expressions.
"""
