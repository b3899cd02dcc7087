"""The review of a policy that was translated from a document.

record        the review file: its types, its reader and its writer
requirement   the hash of all that decides the meaning of a rule, whether the document is still the one that was
              translated, and whether people confirmed the policy
"""

from guardagent.policy.file.policy_file import review_path
from guardagent.policy.review.record import read_review, write_review
from guardagent.policy.review.requirement import (
    SentenceStatus,
    require_review,
    review_problems,
    rule_hashes,
    rule_problems,
    sentence_status,
)

__all__ = [
    "SentenceStatus",
    "read_review",
    "require_review",
    "review_path",
    "review_problems",
    "rule_hashes",
    "rule_problems",
    "sentence_status",
    "write_review",
]
