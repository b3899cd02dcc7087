"""General helpers that know nothing of guards.

They read files with located errors, lock files, parse strict JSON and linear-time regular expressions, find plug-ins,
parse Python in many threads, and preserve a Ctrl-C. `fold.py` is the outermost layer of every guard: the most severe
verdict stands, and a check that crashes denies.

Parts of servers over HTTP: requests and answers, who may call, limits on clients, TLS.

Reports for people: sections with notes and tables, in formats that show the strings of others safely.

section    the types
markdown   as Markdown
html       as one page
"""
