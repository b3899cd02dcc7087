"""General helpers that know nothing of policies: files, JSON, plug-ins, stores, HTTP, and reports for people.

`execution` has the outermost layer of every guard: the most severe verdict stands, and a check that crashes denies.
"""
