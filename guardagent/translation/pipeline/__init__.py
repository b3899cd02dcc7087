"""The translation of a document, from its inputs to its files.

inputs            the inputs that the caller names, read
owner_answers     the answers so far, and what they concern
reconsideration   rules that stand, and that a new answer about another sentence concerns
stages            survey, drafts, readings
open_groups       the drafts of sentences with open questions
recording         the record for the review
translation       runs everything, and writes the files
"""

from guardagent.translation.translation import Translation, translate

__all__ = ["Translation", "translate"]
