"""The interface of a ledger, the ledger in memory, and the history of one conversation in the others.

A conversation in a ledger on a server or in a file continues in another process: its history is a sequence of entries,
each of which a process adds only at the next place.
"""

from __future__ import annotations

import decimal
import hashlib
import json
import secrets
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.ledger.staging import HistoryChange, staged
from guardagent.errors import GuardError, InputError, LedgerError
from guardagent.session.calls import HistoryChangedError, HistoryEntry, SessionEndedError
from guardagent.types import EMPTY

USED = "the approval of this call was used already; propose the call again with a new id"
REJECTED = "a reviewer rejected this call; propose it again"
_DECIMAL = "\0decimal"  # marks decimals, which JSON does not distinguish from floats
_HASHED = "sha256:"
_LONGEST_NAME = 200
_OTHER_POLICY = (
    "conversation {!r} began under another policy, or another state of it; "
    "continue under that policy, or end the conversation and begin a new one"
)
_MIGRATED = "migrated"
_MOVED = "conversation {!r} goes on under another version of its policy since; try again"


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """An approval request for a call.

    Attributes:
        rules: the ids of the rules that escalated, and the mark of the facts that were shown, if there are any.
        root: the digest of the call as the agent proposed it; edits may have led to further requests.
        rejected: whether the reviewer rejected it.
    """

    rules: tuple[str, ...]
    root: str
    rejected: bool = False


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
            rules: as of `RecordedRequest`.
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


class MemoryLedger:
    """A `Ledger` that ends with the process. Its address is `memory:`; `memory:NAME` is another one.

    Args:
        label: distinguishes the addresses.
    """

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.name = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._requests: dict[str, dict[str, RecordedRequest]] = {}  # conversation -> digest -> request
        self._used: set[str] = set()

    def record_request(self, call: HostCall, rules: Sequence[str], edited: HostCall | None = None) -> None:
        with self._lock:
            root = self._root(edited or call)
            self._require_unused(call.digest, root)
            self._of(call)[call.digest] = RecordedRequest(tuple(rules), root)

    def recorded_request(self, call: HostCall) -> RecordedRequest | None:
        with self._lock:
            self._require_unused(call.digest, self._root(call))
            return self._of(call).get(call.digest)

    def reject(self, call: HostCall) -> None:
        with self._lock:
            self._of(call)[call.digest] = RecordedRequest((), self._root(call), rejected=True)

    def use(self, call: HostCall) -> None:
        with self._lock:
            root, question = self._root(call), self._of(call).get(call.digest)
            self._require_unused(call.digest, root)
            if question is not None and question.rejected:
                raise InputError(REJECTED)
            self._of(call).pop(call.digest, None)
            self._used |= {call.digest, root}

    def end(self, conversation: str) -> None:
        with self._lock:
            self._requests.pop(conversation, None)

    def journal(self, conversation: str, policy: str) -> None:
        """Returns None: no other process continues its conversations."""

    def _of(self, call: HostCall) -> dict[str, RecordedRequest]:
        return self._requests.setdefault(str(call.conversation), {})

    def _root(self, call: HostCall) -> str:
        question = self._of(call).get(call.digest)
        return question.root if question is not None else call.digest

    def _require_unused(self, *digests: str) -> None:
        if not self._used.isdisjoint(digests):
            raise InputError(USED)


class FinalLedger:
    """A `Ledger` in which no conversation begins under the name of one that has ended.

    Otherwise a server that was stopped could go on with a call in a new conversation, without the history. It is also
    the store of its journals' entries, so that an operation that is staged neither reads nor writes them.

    Args:
        ledger: the ledger.

    Attributes:
        stages: whether operations can be staged: whether the ledger commits several together.
        moved: conversations that another server has moved to another version of their policy, as far as was noticed.

    Raises:
        InputError: the ledger keeps no histories.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger: Any = ledger
        self.name = ledger.name
        self.stages = callable(getattr(ledger, "commit", None))
        self._watched, self._seen = "", threading.local()
        self.moved: set[str] = set()

    def watch(self, conversation: str) -> None:
        """Lets no call be placed from now on if a conversation has gone on since the call was judged."""
        self._watched = conversation

    def saw_watched(self, place: int) -> None:
        """Notes the last place of the watched conversation before a call is judged in this thread."""
        self._seen.place = place

    def settle(self) -> None:
        """Waits for commits that may not have seen what was committed before."""
        getattr(self._ledger, "settle", lambda: None)()

    def record_request(self, call: HostCall, rules: Sequence[str], edited: HostCall | None = None) -> None:
        self._unstaged().record_request(call, rules, edited)

    def recorded_request(self, call: HostCall) -> RecordedRequest | None:
        request: RecordedRequest | None = self._unstaged().recorded_request(call)
        return request

    def reject(self, call: HostCall) -> None:
        self._unstaged().reject(call)

    def use(self, call: HostCall) -> None:
        self._unstaged().use(call)

    def end(self, conversation: str) -> None:
        self._unstaged().end(conversation)

    def journal(self, conversation: str, policy: str) -> ConversationJournal:
        journal: Any = self._ledger.journal(conversation, policy)
        if journal is None or not hasattr(journal, "ends_for_good"):  # it may be another package's
            raise InputError("this ledger keeps no histories for servers; expected sqlite:, postgresql: or redis:")
        if self.stages:
            journal = ConversationJournal(self, conversation, policy)
        journal.ends_for_good, journal.moved = True, self.moved
        return journal  # type: ignore[no-any-return]

    def policy_of(self, conversation: str) -> str | None:
        """Returns the digest of the policy under which a conversation runs."""
        if staged() is not None:
            return None  # it begins with this operation; else its commit fails
        policy: str | None = self._ledger.policy_of(conversation)
        return policy

    def commit(self, changes: Sequence[HistoryChange], *, seconds: float | None = None) -> set[str]:
        """See `HistoryStore.commit`. The ledger adds nothing at all if the watched conversation has gone on."""
        places = [change.watched for change in changes if change.watched is not None]
        provided = (self._watched, min(places)) if places else None
        refused: set[str] = self._ledger.commit(changes, seconds=seconds, provided=provided)
        return refused

    def entries(self, conversation: str, after: int) -> list[tuple[int, str, str | None]]:
        if (operation := staged()) is None:
            return self._ledger.entries(conversation, after)  # type: ignore[no-any-return]
        operation.saw(conversation, after)
        return []

    def append(self, conversation: str, place: int, policy: str, entry: str, call_id: str | None) -> None:
        operation = staged()
        change = HistoryChange(conversation, place - 1) if operation is None else operation.saw(conversation, place - 1)
        if self._watched and call_id is not None:
            change.watched = self._seen.place
        if operation is None and change.watched is None:
            self._ledger.append(conversation, place, policy, entry, call_id)
            return
        change.rows.append((place, policy, entry, call_id))
        if operation is None and self.commit([change]):
            self._require_added(conversation, place, entry)

    def _require_added(self, conversation: str, place: int, entry: str) -> None:
        """Raises the reason why an entry was refused; none if it was added, and the answer was lost."""
        rows = self._ledger.entries(conversation, place - 1)
        if not rows:
            raise LedgerError("a person made or lifted a stop while the call was judged; propose the call again")
        if rows[0][2] != entry:
            raise refused_place(conversation, place, rows[-1][0])

    def add_call_id(self, conversation: str, call_id: str) -> None:
        if (operation := staged()) is not None and operation.change is not None:
            operation.change.call_ids.append(call_id)
        else:
            self._unstaged().add_call_id(conversation, call_id)

    def has_call_id(self, conversation: str, call_id: str) -> bool:
        has: bool = self._unstaged().has_call_id(conversation, call_id)
        return has

    def _unstaged(self) -> Any:
        """Returns the ledger for a step that cannot wait for a commit.

        Raises:
            LedgerError: an operation is staged.
        """
        if (operation := staged()) is not None:
            operation.fits = False
            raise LedgerError("this step of the operation needs the ledger at once")
        return self._ledger


# --- histories


class EntryStore(Protocol):
    """A store of conversation histories, which are sequences of entries.

    Attributes:
        name: identifies the store.
    """

    name: str

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


class ConversationJournal:
    """The journal of a conversation in a ledger; known entries are not read again.

    Args:
        ledger: stores the journal.
        conversation: the id of the conversation.
        policy: the digest of this process's policy.

    Attributes:
        ends_for_good: whether no conversation of the same name may begin after the end of this one.
        moved: gets its id once another server has moved it to another version of its policy.
    """

    ends_for_good = False

    def __init__(self, ledger: EntryStore, conversation: str, policy: str) -> None:
        self._ledger, self._conversation, self._policy = ledger, conversation, policy
        self.moved: set[str] = set()
        self._known = 0  # the place of the last entry read or added here
        self._begun = 0  # the place after which the conversation began: the end of an earlier one, or 0

    @property
    def scope(self) -> str:
        """Identifies the conversation among all ledgers and times."""
        return json.dumps([self._ledger.name, self._conversation, self._begun])

    def news(self) -> Sequence[HistoryEntry]:
        known, read = self._read()
        start = max(
            (at for at, (policy, entry) in enumerate(read) if _MIGRATED in entry and policy == self._policy), default=0
        )
        for policy, entry in read[start:]:
            if policy != self._policy:
                if _MIGRATED in entry:
                    self.moved.add(self._conversation)
                    raise LedgerError(_MOVED.format(self._conversation))
                raise InputError(_OTHER_POLICY.format(self._conversation))
        self._known = known
        return [
            {**entry, "memory": EMPTY, "said": EMPTY} if at < start else entry for at, (_, entry) in enumerate(read)
        ]

    def earlier(self) -> list[tuple[str, HistoryEntry]]:
        """Returns all entries with their policies, before one with `migrated` lets the conversation leave that policy.

        Raises:
            SessionEndedError: the conversation has ended.
            LedgerError: an entry is missing.
        """
        self._known, read = self._read()
        return read

    def _read(self) -> tuple[int, list[tuple[str, HistoryEntry]]]:
        """Returns the place of the last entry, and the policy and the entry of each that is not known."""
        known, read = self._known, []
        for place, policy, entry in self._ledger.entries(self._conversation, known):
            if entry is None:
                if known or self.ends_for_good:
                    raise SessionEndedError(f"conversation {self._conversation!r} was ended by another process")
                self._begun = place
            elif place != known + 1:
                raise LedgerError(f"conversation {self._conversation!r} lacks entry {known + 1} in the ledger")
            else:
                read.append((policy, json.loads(entry, object_hook=_decode)))
            known = place
        return known, read

    def append(self, entry: HistoryEntry) -> None:
        placed = entry.get("placed")
        call_id = placed["id"] if placed is not None else None
        unique = {**entry, "entry": secrets.token_hex(8)}  # two processes may do the same
        self._ledger.append(self._conversation, self._known + 1, self._policy, _encode(unique), call_id)
        self._known += 1

    def add_call_id(self, call_id: str) -> None:
        """Stores the id of a proposed call that is not in flight."""
        self._ledger.add_call_id(self._conversation, call_id)

    def unknown_call_ids(self, call_ids: Collection[str]) -> set[str]:
        """Returns the ids that were never proposed in this conversation."""
        return {call_id for call_id in call_ids if not self._ledger.has_call_id(self._conversation, call_id)}


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
            return _encode({**entry, "output": None, "lost": True})
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
