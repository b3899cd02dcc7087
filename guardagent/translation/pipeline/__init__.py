"""The translation of a document, from its inputs to its files.

inputs        what the caller names, read
stages        survey, drafts, readings
outcome       the record for the review
files         the policy, its cases and its review file
translation   runs everything
"""

from guardagent.translation.pipeline.translation import Translation, translate

__all__ = ["Translation", "translate"]
