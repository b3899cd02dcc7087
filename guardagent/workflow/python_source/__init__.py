"""Python read without running it.

    evaluation   the possible values of an expression
    functions    the possible calls and results of a function
    programs     a whole program, statement by statement, with stubs for the objects of frameworks

Code that is not understood can have any value or effect.

Evaluates Python expressions without running them.

An expression has a set of possible values (`values.py`). Names are looked up in scopes (`scope.py`): the live globals
and cells of a function, or the syntax tree of a file. `evaluator.py` evaluates expressions.

The bodies of functions: what they call, and how they can end.

A whole program, statement by statement, with stubs for the objects of frameworks.
"""
