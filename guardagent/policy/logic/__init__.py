"""Data rules as first-order logic: what can still be complied with, what would mend a call, and what a policy implies.

- `expressions`: truths, numbers and texts, folded where they are known; `lowering` and `solving` take them to Z3
- `values`, `symbols`, `operations`: the values of the language, which may be open, and what it does with them
- `meaning`, `combined`: what the terms, the patterns and the parts of a rule say of a call
- `present`, `question`, `opened`, `likely`, `search`, `reasoner`: the questions of one session
- `imagined`, `abstract`: the questions of `lint`, about any session
"""
