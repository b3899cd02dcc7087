"""Data rules as first-order logic: possible completions of a call, remedies, and implications of a policy.

expressions, lowering   truth values, numbers and strings, folded if constant; their translation to Z3
values, operations      the symbolic values of the language and its operations
semantics               the meaning of terms, patterns and rules for a call
sessions                the current session, and an arbitrary one
search, reasoner        questions about the current session
analysis                questions of `lint` about any session
"""
