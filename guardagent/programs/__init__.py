"""Guard programs: the code generated for a guard request (GuardAgent, Sections 3.2 and 3.3).

    program       the host's side: runs a program, records its calls, runs the required checks, owns the verdict
    program_file  the file of a compiled program, whose header records its sources
    lock          a lock file with the content that may run
    meaning       the topic that a text is nearest to in meaning, for toolboxes of operators
    memory        agents and their demonstrations: retrieval, additions, learning, review
    answers       the plan, program or judgement in an answer of a model
    generation    a model plans, writes and debugs a program for one run
    compile       a program written once, and tested with variants of a few examples

A program runs in the sandbox. The verdict is the host's: a program's answer can make it more severe, never less.
"""
