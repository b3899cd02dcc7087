"""General helpers, which know nothing of guards.

Reading files with errors that say where, file locks, strict JSON, linear-time regular expressions, plug-ins, parsing
Python in many threads, a Ctrl-C that is not lost. `fold.py` has the outermost layer of every guard: the most severe
of several answers stands, and a check that crashes denies.
"""
