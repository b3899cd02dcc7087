"""Decides whether two drafts of a rule mean the same, and finds a conversation on which they differ.

comparison           `compare_rules`: proves, searches, reports
draft                drafts, witnesses, and the results of a comparison
canonical            the rules of a draft in one spelling
proofs               Z3 on one call in any session, and products of automata
places, variations   the values that matter to both drafts
search               conversations with such values, judged by real sessions, and made smaller
questions, phrases   the witness as a question to a person, and the answer as a case
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
