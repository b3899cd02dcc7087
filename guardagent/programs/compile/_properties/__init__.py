"""Property-based testing: each clause of the request as a predicate on all runs.

Beside its program the model writes a function `property_N(agent_input, agent_output, facts)` per clause. It returns
"deny" for a run that clause N forbids, "allow" for a run that must pass, and None for a run that the clause does not
cover or cannot decide. Properties are untrusted like the program: they pass the static gate, and run in the sandbox.

source.py   the functions in an answer, and their problems
claims.py   the claims of properties about a run, compared with the outcome of a program
changes.py  changes of the examples: their fields, and other values for them
search.py   the runs with these changes, systematic and random
symbolic.py values from CrossHair, in its own process; the only module that needs CrossHair
"""

from guardagent.programs.compile._properties.source import Properties, read_properties

__all__ = ["Properties", "read_properties"]
