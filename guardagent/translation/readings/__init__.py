"""Two independent drafts of the same sentences: proved to say the same, or turned into questions to the owner.

group_reading  the sentences that rules connect; the rules that stand, the open questions, the drafts to mend
questions      the differences of two drafts, part by part, as questions; the answers, and whether a draft keeps them
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
