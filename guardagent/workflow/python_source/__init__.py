"""Python read without running it.

    evaluation   the possible values of an expression
    functions    the possible calls and results of a function
    programs     a whole program, statement by statement, with stubs for the objects of frameworks

Code that is not understood can have any value or effect.
"""
