"""Data rules as first-order logic: possible completions of a call, remedies, and implications of a policy.

- `expressions`: truth values, numbers and strings, folded if constant; `lowering` and `expression_solver`
  translate them to Z3 and solve them
- `values`, `symbols`, `ranges`, `operations`: the symbolic values of the language and its operations
- `semantics`, `rule_tree`: the meaning of terms, patterns and rules for a call
- `current_session`, `call_evaluation`, `open_arguments`, `candidates`, `search`, `reasoner`: questions about one
  session
- `symbolic_session`, `analysis`: questions of `lint` about any session
"""
