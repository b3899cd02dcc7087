"""A ledger whose conversations end for good."""

from __future__ import annotations

from collections.abc import Sequence

from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.ledger.protocol import ConversationJournal, Ledger, RecordedRequest
from guardagent.errors import InputError


class FinalLedger:
    """A `Ledger` in which no conversation begins under the name of one that has ended.

    Otherwise a server that was stopped could go on with a call in a new conversation, without the history.

    Raises:
        InputError: the ledger keeps no histories.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.name = ledger.name

    def record_request(self, call: HostCall, rules: Sequence[str], edited: HostCall | None = None) -> None:
        self._ledger.record_request(call, rules, edited)

    def recorded_request(self, call: HostCall) -> RecordedRequest | None:
        return self._ledger.recorded_request(call)

    def reject(self, call: HostCall) -> None:
        self._ledger.reject(call)

    def use(self, call: HostCall) -> None:
        self._ledger.use(call)

    def end(self, conversation: str) -> None:
        self._ledger.end(conversation)

    def journal(self, conversation: str, policy: str) -> ConversationJournal:
        journal = self._ledger.journal(conversation, policy)
        if journal is None or not hasattr(journal, "ends_for_good"):
            raise InputError("this ledger keeps no histories for servers; expected sqlite:, postgresql: or redis:")
        journal.ends_for_good = True
        return journal

    def policy_of(self, conversation: str) -> str | None:
        """Returns the digest of the policy under which a conversation runs."""
        found: str | None = self._ledger.policy_of(conversation)  # type: ignore[attr-defined]
        return found
