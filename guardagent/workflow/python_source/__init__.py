"""Python read without running it.

    values, scopes, types                       possible values, the lookup of names, annotations
    evaluator, builtins                         the possible values of an expression
    paths, bodies, outcomes, steps, calls       the possible calls and results of a function
    interpreter, objects, modules, stubs        a program, statement by statement, with stubs for a framework's objects
    unseen_calls, unseen_code                   the effects of code that is not shown or not interpreted
    workflows, source_graphs                    the workflows of a program, and their graphs

Code that is not understood can have any value or effect.
"""
