"""Guard programs: the code generated for a guard request (GuardAgent, Sections 3.2 and 3.3).

    runtime       the host's side: runs a program, records its calls, runs the required checks, owns the verdict
    memory        agents and their demonstrations: retrieval, additions, learning, review
    generation    a model plans, writes and debugs a program for one run
    compile       a program written once, and tested with variants of a few examples

A folder uses those above it.

The host's side of a guard program.

A program runs in the sandbox. The host passes its calls to the toolbox and records them, and runs the required checks
itself. The verdict is the host's: a program's answer can make it more severe, never less. The header of a compiled
program records its sources, and a lock file lists the content that may run.

A guard program written by a model for one run (GuardAgent, Sections 4.2 and 4.3).

The steps: retrieve demonstrations, plan in four steps, write code, pass the gate, run, debug. One generator implements
them: it yields prompts and receives completions, with or without an event loop. Several plans can vote.
"""
