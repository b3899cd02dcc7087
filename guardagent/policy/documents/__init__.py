"""A policy document as numbered sentences.

bytes -> blocks (one reader for each format) -> sentences with headings and context (outline) -> findings

`compare` finds the sentences that changed between two versions.
"""

from guardagent.policy.documents.comparison import DocumentComparison, SentenceChange, compare
from guardagent.policy.documents.reader import read_document
from guardagent.policy.documents.sentences import DocumentFinding, PolicyDocument, Sentence

__all__ = [
    "DocumentComparison",
    "DocumentFinding",
    "PolicyDocument",
    "Sentence",
    "SentenceChange",
    "compare",
    "read_document",
]
