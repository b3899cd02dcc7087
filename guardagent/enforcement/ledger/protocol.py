"""The interface of a ledger."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from guardagent.enforcement.calls import HostCall
from guardagent.session.shared_history import Journal

USED = "the approval of this call was used already; propose the call again with a new id"
REJECTED = "a reviewer rejected this call; propose it again"


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """An approval request for a call.

    Attributes:
        rules: the ids of the rules that escalated.
        root: the digest of the call as the agent proposed it; edits may have led to further requests.
        rejected: whether the reviewer rejected it.
    """

    rules: tuple[str, ...]
    root: str
    rejected: bool = False


class ConversationJournal(Journal, Protocol):
    """The history of a conversation, and the ids of the calls that were proposed in it."""

    def add_call_id(self, call_id: str) -> None:
        """Stores the id of a proposed call that is not in flight."""

    def unknown_call_ids(self, call_ids: Collection[str]) -> set[str]:
        """Returns the ids that were never proposed in this conversation."""


class Ledger(Protocol):
    """The store of a guard's approvals and conversations. Each method is atomic among all users of the ledger.

    A ledger that keeps histories may also have `policy_of(conversation)`, the digest of the policy under which a
    conversation began, or None; with it, conversations continue under their version after the policy was reloaded.

    Attributes:
        name: identifies the ledger.
    """

    name: str

    def record_request(self, call: HostCall, rules: Sequence[str], edited: HostCall | None = None) -> None:
        """Records an approval request for a call. A repeated request only replaces the rules.

        Args:
            call: the call that is shown.
            rules: the ids of the rules that escalated.
            edited: the call that the reviewer edited into this one.

        Raises:
            InputError: an approval of the call was used.
        """

    def recorded_request(self, call: HostCall) -> RecordedRequest | None:
        """Returns the approval request of a call; None if there is none.

        Raises:
            InputError: an approval of the call was used.
        """

    def reject(self, call: HostCall) -> None:
        """Records a rejection. The call needs a new request before it can be approved."""

    def use(self, call: HostCall) -> None:
        """Uses the approval of a call, and of the call that it was edited from, once, before the tool runs.

        Raises:
            InputError: the approval was already used, or the call was rejected.
        """

    def end(self, conversation: str) -> None:
        """Ends a conversation: its open requests are void, and its history is deleted."""

    def journal(self, conversation: str, policy: str) -> ConversationJournal | None:
        """Returns the journal of a conversation; None if this ledger keeps no histories.

        Args:
            conversation: the id of the conversation.
            policy: the digest of this process's policy.
        """
