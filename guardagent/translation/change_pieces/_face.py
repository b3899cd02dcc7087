"""A new version of a document: only sentences that changed are translated again.

kept   the sentences, rules, questions and confirmations of the earlier translation that stand as they are
edits  rules that a person changed since
links  sentences that stand or fall with each other
"""

from guardagent.translation.change import FallenRule, Kept, kept, require_same_document, require_translation
from guardagent.translation.change_pieces.edits import with_edits

__all__ = ["FallenRule", "Kept", "kept", "require_same_document", "require_translation", "with_edits"]
