"""The monitors of a compiled rule.

A propositional rule is one minimal automaton. `forall`, `before` and `seq` are conditions on the proposed call;
`exists` and `after` are obligations until the end. A rule combines its monitors, and a conversation asks those that a
call concerns.
"""
