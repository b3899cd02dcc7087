"""The review of a policy that was translated from a document.

record             the types of a review file
review_file        reads and writes it
rule_hashes        the hash of everything that decides the meaning of a rule
document_changes   whether the document is still the one that was translated
requirement        whether people confirmed a policy as it stands
"""

from guardagent.policy.review.record import read_review, review_path, write_review
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
