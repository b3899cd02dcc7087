"""The monitors of a compiled rule.

A propositional rule is one minimal automaton. `forall`, `before` and `seq` are conditions on the proposed call;
`exists` and `after` create obligations until the end. A rule combines its monitors; a conversation runs the monitors
that apply to a call.
"""
