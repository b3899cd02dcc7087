"""Python read without running it.

    evaluation   what an expression can be
    functions    what a function's body can do, and how it can end
    programs     a whole program, statement by statement, with stubs for a framework's objects

Whatever is not understood can be anything.
"""
