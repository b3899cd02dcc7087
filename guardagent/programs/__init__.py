"""Guard programs: the code generated for a guard request (GuardAgent, Sections 3.2 and 3.3).

    runtime       the host's side: runs a program, records its calls, runs the required checks, owns the verdict
    memory        agents and their demonstrations: retrieval, additions, learning, review
    generation    a model plans, writes and debugs a program for one run
    compile       a program written once, and tested with variants of a few examples

A folder uses those above it.
"""
