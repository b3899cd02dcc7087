"""The host's side of a guard program.

A program runs in the sandbox. Each call that it makes is passed to the toolbox by the host, which records it, and
makes the required checks itself. The verdict is the host's: a program's answer can make it more severe, never less.
The header of a compiled program says what it was compiled from, and a lock file which content may run.
"""
