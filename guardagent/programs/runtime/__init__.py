"""The host's side of a guard program.

A program runs in the sandbox. The host passes its calls to the toolbox and records them, and runs the required checks
itself. The verdict is the host's: a program's answer can make it more severe, never less. The header of a compiled
program records its sources, and a lock file lists the content that may run.
"""
