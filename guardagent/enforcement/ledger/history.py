"""The history of one conversation in a ledger."""

from __future__ import annotations

import decimal
import hashlib
import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from guardagent.errors import GuardError, InputError, LedgerError
from guardagent.session.shared_history import HistoryChangedError, HistoryEntry, SessionEndedError

_DECIMAL = "\0decimal"  # marks decimals, which JSON does not distinguish from floats
_HASHED = "sha256:"
_LONGEST_NAME = 200
_OTHER_POLICY = (
    "conversation {!r} began under another policy, or another state of it; "
    "continue under that policy, or end the conversation and begin a new one"
)


class EntryStore(Protocol):
    """A store of conversation histories, which are sequences of entries."""

    def entries(self, conversation: str, after: int) -> list[tuple[int, str, str | None]]:
        """Returns (place, policy, entry) of the entries after a place; the end of a conversation has no entry."""

    def append(self, conversation: str, place: int, policy: str, entry: str, call_id: str | None) -> None:
        """Adds an entry at a place; each entry is unique, and one that is already there is not added again.

        Raises:
            HistoryChangedError: another entry is at this place.
            LedgerError: the place is not the next one.
        """

    def add_call_id(self, conversation: str, call_id: str) -> None:
        """Stores the id of a call."""

    def has_call_id(self, conversation: str, call_id: str) -> bool:
        """Whether the id is stored."""


class StoredJournal:
    """The journal of a conversation in a ledger; known entries are not read again.

    Args:
        ledger: stores the journal.
        conversation: the id of the conversation.
        policy: the digest of this process's policy.

    Attributes:
        ends_for_good: whether no conversation of the same name may begin after the end of this one.
    """

    ends_for_good = False

    def __init__(self, ledger: EntryStore, conversation: str, policy: str) -> None:
        self._ledger, self._conversation, self._policy = ledger, conversation, policy
        self._known = 0  # the place of the last entry read or added here

    def news(self) -> Sequence[HistoryEntry]:
        known, found = self._known, []
        for place, policy, entry in self._ledger.entries(self._conversation, known):
            if entry is None:
                if known or self.ends_for_good:
                    raise SessionEndedError(f"conversation {self._conversation!r} was ended by another process")
            elif place != known + 1:
                raise LedgerError(f"conversation {self._conversation!r} lacks entry {known + 1} in the ledger")
            elif policy != self._policy:
                raise InputError(_OTHER_POLICY.format(self._conversation))
            else:
                found.append(json.loads(entry, object_hook=_decode))
            known = place
        self._known = known
        return found

    def append(self, entry: HistoryEntry) -> None:
        placed = entry.get("placed")
        call_id = placed["id"] if placed is not None else None
        unique = {**entry, "entry": secrets.token_hex(8)}  # two processes may do the same
        self._ledger.append(self._conversation, self._known + 1, self._policy, _encode(unique), call_id)
        self._known += 1

    def add_call_id(self, call_id: str) -> None:
        self._ledger.add_call_id(self._conversation, call_id)

    def unknown_call_ids(self, call_ids: Collection[str]) -> set[str]:
        return {one for one in call_ids if not self._ledger.has_call_id(self._conversation, one)}


def stored_name(text: str) -> str:
    """Returns a name for a text that each store takes: the text itself, if it is short and plain, or its hash."""
    if len(text) <= _LONGEST_NAME and text.isprintable() and text.isascii() and not text.startswith(_HASHED):
        return text
    return f"{_HASHED}{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def refused_place(conversation: str, place: int, last: int) -> GuardError:
    """Returns the error of an entry at a place that is not the next one after the last."""
    if last < place - 1:
        return LedgerError(
            f"the ledger has lost entries of conversation {conversation!r}: it has {last} of {place - 1}; restore it "
            "from a backup with all of them, or end the conversation"
        )
    return HistoryChangedError(f"another process added to conversation {conversation!r}")


def _encode(entry: HistoryEntry) -> str:
    try:
        return json.dumps(entry, default=_encode_value, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        if entry.get("output") is not None:  # the call has run; other processes do not see its output
            return _encode({**entry, "output": None})
        raise InputError(
            f"the call cannot be stored in the ledger: {error}; expected JSON in calls and facts"
        ) from None


def _encode_value(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return {_DECIMAL: str(value)}
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _decode(value: Mapping[str, Any]) -> Any:
    try:
        return decimal.Decimal(value[_DECIMAL]) if value.keys() == {_DECIMAL} else value
    except (decimal.InvalidOperation, TypeError):
        return value
