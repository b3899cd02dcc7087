"""The monitors of a rule: automata, conditions on the proposed call, obligations."""
