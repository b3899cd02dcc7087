"""A new version of a document: only sentences that changed are translated again.

kept   the sentences, rules, questions and confirmations of the earlier translation that stand as they are
edits  rules that a person changed since
links  sentences that stand or fall with each other
"""

from guardagent.translation.change.edits import with_edits
from guardagent.translation.change.kept import FallenRule, Kept, kept, require_same_document, require_translation

__all__ = ["FallenRule", "Kept", "kept", "require_same_document", "require_translation", "with_edits"]
