"""Guard programs: the code that a guard request becomes (GuardAgent, Sections 3.2 and 3.3).

    runtime       the host's side: runs a program, records its calls, makes the required checks, owns the verdict
    memory        agents and their demonstrations: retrieved, added, learnt, reviewed
    generation    a model plans and writes a program for one run, and debugs it
    compile       a program written once, and tested with everything that can be derived from a few examples

A folder uses those above it.
"""
