"""Properties: what a clause of the request says of every run, and no example alone.

Beside its program the model writes, for each clause, a function `property_N(agent_input, agent_output, facts)`. It
gives "deny" for a run that clause N forbids, "allow" for one that must pass, and None for one of which the clause says
nothing or which it cannot tell. Like the program, properties are untrusted: they pass the static gate, and run in the
sandbox.

source.py   the functions in an answer, and what is wrong with them
claims.py   what they say of a run, and whether a program keeps to it
shapes.py   the fields of the examples, and the values to put there
search.py   the runs that are made of them, swept and at random
symbolic.py values that CrossHair suggests, from a process of its own; it alone needs CrossHair
"""

from guardagent.programs.compile.properties.source import Properties, read_properties

__all__ = ["Properties", "read_properties"]
