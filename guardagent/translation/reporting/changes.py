"""The changes since the last version of a document."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from guardagent.policy.documents import Sentence, SentenceChange


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """The changed sentences, the rules that fell with them, and those that stay.

    Attributes:
        changed, added, removed: the sentences, as `guardagent.policy.documents.compare` finds them.
        fallen: the ids of the rules that rested on a changed or removed sentence. They are gone or translated again.
        kept: the ids of the other rules of the last version.
        policies: the path of the new policy file.
        against: the path of the last one; empty if it is not kept.
    """

    changed: tuple[SentenceChange, ...]
    added: tuple[Sentence, ...]
    removed: tuple[Sentence, ...]
    fallen: tuple[str, ...]
    kept: tuple[str, ...]
    policies: str
    against: str = ""

    @property
    def replay(self) -> str:
        """The command that shows what recorded calls would now get; `LOG` stands for the log or the traces."""
        against = ["--against", self.against] if self.against else []
        return shlex.join(["guardagent", "replay", "LOG", "--policies", self.policies, *against])
