"""The workflow graph of an agent (Agentproof, Definition 1).

Its types, its JSON with located errors, and the targets of a command line: a file, an object in a file or module, or a
graph.
"""
