"""The interface of a ledger."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from guardagent.enforcement.calls import HostCall
from guardagent.session.shared_history import Journal

USED = "an approval of this very call was used already; propose it anew, with an id of its own"
REJECTED = "a person has rejected this call; propose it anew"


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A call that a person was asked about.

    Attributes:
        rules: those that asked for it.
        root: the digest of the call as the agent proposed it: a person's edits may have led to further questions.
        rejected: the answer was no.
    """

    rules: tuple[str, ...]
    root: str
    rejected: bool = False


class ConversationJournal(Journal, Protocol):
    """The history of a conversation, and the ids of the calls that were proposed in it."""

    def add_call_id(self, call_id: str) -> None:
        """Keeps the id of a call that has not taken a place."""

    def unknown_call_ids(self, call_ids: Collection[str]) -> set[str]:
        """Those of some ids that were never proposed in this conversation."""


class Ledger(Protocol):
    """What a guard keeps of approvals, and of conversations. Each method is atomic among all that share the ledger.

    Attributes:
        name: tells it from other ledgers.
    """

    name: str

    def record_request(self, call: HostCall, rules: Sequence[str], edited: HostCall | None = None) -> None:
        """A person is asked about a call. Asked again, nothing changes but the rules.

        Args:
            call: what is shown.
            rules: the ids of those that ask for it.
            edited: the call that the person was shown first, and edited into this one.

        Raises:
            InputError: an approval of it was used.
        """

    def recorded_request(self, call: HostCall) -> RecordedRequest | None:
        """What a person was asked about a call; None where nobody was.

        Raises:
            InputError: an approval of it was used.
        """

    def reject(self, call: HostCall) -> None:
        """A person has rejected a call: until it is asked about again, nobody can approve it."""

    def use(self, call: HostCall) -> None:
        """Uses the approval of a call, and of the one that it was edited from: once ever, before the tool runs.

        Raises:
            InputError: it was used, or rejected.
        """

    def end(self, conversation: str) -> None:
        """A conversation has ended: what was asked there and not answered is void, and its history is forgotten."""

    def journal(self, conversation: str, policy: str) -> ConversationJournal | None:
        """The history of a conversation; None where this ledger keeps none.

        Args:
            conversation: its id.
            policy: the digest of the policy that is followed here.
        """
