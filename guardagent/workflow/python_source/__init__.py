"""Python read without running it.

    values, scopes, types                       possible values, the lookup of names, annotations
    evaluator, builtins                         the possible values of an expression
    paths, bodies, outcomes, steps, calls       the possible calls and results of a function
    interpreter, statements, modules, stubs     a program, statement by statement, with stubs for a framework's objects
    effects, unseen_code                        the effects of statements, and of code that is not shown
    workflows, source_graphs                    the workflows of a program, and their graphs

Code that is not understood can have any value or effect.
"""
