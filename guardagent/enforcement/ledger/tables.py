"""A ledger in the tables of a database."""

from __future__ import annotations

import abc
import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.ledger.history import StoredJournal, refused_place, stored_name
from guardagent.enforcement.ledger.protocol import REJECTED, USED, RecordedRequest
from guardagent.errors import InputError

ADVICE = "continue with the release that created it, or begin a new one: then old approvals are void"


class TableLedger(abc.ABC):
    """A `Ledger` in the tables of a database. A conversation has one writer at a time.

    Attributes:
        name: identifies the ledger.
    """

    name: str

    @abc.abstractmethod
    def _connected(self) -> AbstractContextManager[Any]:
        """Gives a connection; each statement is a transaction of its own."""

    @abc.abstractmethod
    def _transaction(self, conversation: str, /) -> AbstractContextManager[Any]:
        """Opens a transaction. No other one writes the approvals or the end of this conversation meanwhile."""

    @abc.abstractmethod
    def _add_entry(self, row: tuple[str, int, str, str], call_id: str | None) -> bool:
        """Adds an entry (conversation, place, policy, entry) if its place is the next one. Returns whether it was."""

    # --- approvals

    def record_request(self, call: HostCall, rules: Sequence[str], edited: HostCall | None = None) -> None:
        with self._transaction(_conversation(call)) as db:
            root = _root(db, edited or call)
            _require_unused(db, call.digest, root)
            _put(db, call, RecordedRequest(tuple(rules), root))

    def recorded_request(self, call: HostCall) -> RecordedRequest | None:
        with self._connected() as db:
            found = _recorded_request(db, call)
            _require_unused(db, call.digest, found.root if found else call.digest)
            return found

    def reject(self, call: HostCall) -> None:
        with self._transaction(_conversation(call)) as db:
            _put(db, call, RecordedRequest((), _root(db, call), rejected=True))

    def use(self, call: HostCall) -> None:
        with self._transaction(_conversation(call)) as db:
            question = _recorded_request(db, call)
            used = {call.digest, question.root if question else call.digest}
            _require_unused(db, *used)
            if question is not None and question.rejected:
                raise InputError(REJECTED)
            for one in used:
                db.execute("INSERT INTO used VALUES (?)", (one,))

    # --- conversations

    def end(self, conversation: str) -> None:
        name = stored_name(conversation)
        with self._transaction(name) as db:
            db.execute("DELETE FROM questions WHERE conversation = ?", (name,))
            db.execute("DELETE FROM proposed WHERE conversation = ?", (name,))
            while last := _last(db, name):  # an entry may be added meanwhile
                mark = "INSERT INTO entries VALUES (?, ?, '', NULL) ON CONFLICT DO NOTHING"
                if db.execute(mark, (name, last + 1)).rowcount:  # so that other processes see the end
                    db.execute("DELETE FROM entries WHERE conversation = ? AND place <= ?", (name, last))
                    return

    def journal(self, conversation: str, policy: str) -> StoredJournal:
        return StoredJournal(self, conversation, policy)

    def policy_of(self, conversation: str) -> str | None:
        """Returns the digest of the policy under which a conversation runs; None if it has not begun."""
        query = "SELECT policy FROM entries WHERE conversation = ? AND entry IS NOT NULL LIMIT 1"
        with self._connected() as db:
            found = db.execute(query, (stored_name(conversation),)).fetchone()
        return None if found is None else str(found[0])

    def entries(self, conversation: str, after: int) -> list[tuple[int, str, str | None]]:
        query = "SELECT place, policy, entry FROM entries WHERE conversation = ? AND place > ? ORDER BY place"
        with self._connected() as db:
            return list(db.execute(query, (stored_name(conversation), after)).fetchall())

    def append(self, conversation: str, place: int, policy: str, entry: str, call_id: str | None) -> None:
        name = stored_name(conversation)
        if self._add_entry((name, place, policy, entry), None if call_id is None else stored_name(call_id)):
            return
        with self._connected() as db:
            found = db.execute(
                "SELECT entry FROM entries WHERE conversation = ? AND place = ?", (name, place)
            ).fetchone()
            last = _last(db, name)
        if found is None or found[0] != entry:  # else it was added, and the answer was lost
            raise refused_place(conversation, place, last)

    def add_call_id(self, conversation: str, call_id: str) -> None:
        with self._connected() as db:
            row = stored_name(conversation), stored_name(call_id)
            db.execute("INSERT INTO proposed VALUES (?, ?) ON CONFLICT DO NOTHING", row)

    def has_call_id(self, conversation: str, call_id: str) -> bool:
        query = "SELECT 1 FROM proposed WHERE conversation = ? AND id = ?"
        with self._connected() as db:
            return db.execute(query, (stored_name(conversation), stored_name(call_id))).fetchone() is not None


def _conversation(call: HostCall) -> str:
    return stored_name(str(call.conversation))


def _last(db: Any, name: str) -> int:
    """Returns the place of the last entry, or 0."""
    query = "SELECT coalesce(max(place), 0) FROM entries WHERE conversation = ?"
    return db.execute(query, (name,)).fetchone()[0]  # type: ignore[no-any-return]


def _recorded_request(db: Any, call: HostCall) -> RecordedRequest | None:
    row = db.execute("SELECT rules, root, rejected FROM questions WHERE digest = ?", (call.digest,)).fetchone()
    return RecordedRequest(tuple(json.loads(row[0])), row[1], bool(row[2])) if row else None


def _root(db: Any, call: HostCall) -> str:
    question = _recorded_request(db, call)
    return question.root if question else call.digest


def _put(db: Any, call: HostCall, one: RecordedRequest) -> None:
    row = (call.digest, _conversation(call), one.root, json.dumps(one.rules), int(one.rejected))
    db.execute(
        """INSERT INTO questions VALUES (?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE
           SET root = excluded.root, rules = excluded.rules, rejected = excluded.rejected""",
        row,
    )


def _require_unused(db: Any, *digests: str) -> None:
    for digest in digests:
        if db.execute("SELECT 1 FROM used WHERE digest = ?", (digest,)).fetchone():
            raise InputError(USED)
