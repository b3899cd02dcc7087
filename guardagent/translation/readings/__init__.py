"""Two independent drafts of the same sentences: proved to say the same, or turned into questions to the owner.

groups      the sentences that rules connect, with both drafts of them
selection   a part of several drafts, with the declarations that it needs
comparison  the differences of two drafts, part by part
questions   differences and ambiguities as questions
rulings     the answers, and whether a draft keeps them
group_reading  read_group: the rules that stand, the questions that are open, the drafts to mend
"""

from guardagent.translation.readings.group_reading import (
    GroupReading,
    Mending,
    SentenceGroup,
    read_group,
    sentence_groups,
)
from guardagent.translation.readings.questions import AMBIGUITY, Ruling, ambiguity_questions, rulings_of

__all__ = [
    "AMBIGUITY",
    "GroupReading",
    "Mending",
    "Ruling",
    "SentenceGroup",
    "ambiguity_questions",
    "read_group",
    "rulings_of",
    "sentence_groups",
]
