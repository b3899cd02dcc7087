"""Whether two drafts of a rule say the same, with a conversation on which they differ.

comparison           compare_rules: proves, searches, reports
draft, names, canonical  the rules of a draft, in one spelling
step_comparison      rules about the order of steps: a product of automata
symbolic_comparison  data and solver rules: Z3 on one call in any session
solver_terms         solver rules in the terms of data rules
places, variations   the values that matter to both drafts
scenario, search     conversations with such values, judged by real sessions
minimization         a smaller witness
question, answers    the witness as a question to a person, and the answer as a case
"""

from guardagent.policy.equivalence.comparison import compare_rules
from guardagent.policy.equivalence.draft import Comparison, Different, Same, Undecided, Witness
from guardagent.policy.equivalence.questions import Choice, ReviewerAnswer, choices, question, with_answer

__all__ = [
    "Choice",
    "Comparison",
    "Different",
    "ReviewerAnswer",
    "Same",
    "Undecided",
    "Witness",
    "choices",
    "compare_rules",
    "question",
    "with_answer",
]
