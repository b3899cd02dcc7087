"""Appends to a log: from threads, event loops, several processes, and forks.

An append puts the content of an entry into a queue. Then one of the waiting threads takes the whole queue, chains it to
the end of the log, and commits it for all of them: concurrent appends share one commit, and a single one waits for
nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path
from typing import Any, Self
from weakref import WeakSet

from guardagent._support.stores import StoreBusyError, held_lock
from guardagent.errors import InputError, LogError
from guardagent.log.chain import Chain, Entry, Head, HeadFile, checked_key
from guardagent.log.records import RecordEncoder
from guardagent.log.signatures import SigningKey
from guardagent.log.stores import Rotation, is_address, open_reader, open_store
from guardagent.log.verification import anchor_record

_BATCH_SIZE = 1000
SIGN_EVERY = 100  # entries, and at the end: with a key, everything before is signed
_FORK_WAITS = 5.0  # seconds for a commit to end; the thread that commits may be the one that forks, in a signal handler
_open: WeakSet[AuditLog] = WeakSet()


class _PendingEntry:
    """An entry to be committed: afterwards it has a number, or an error."""

    __slots__ = ("error", "seq", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.seq = 0
        self.error: str | None = None

    @property
    def settled(self) -> bool:
        return self.seq > 0 or self.error is not None


class AuditLog:
    """A log to which entries are appended. It is created if it is missing; the folder of a file must exist.

    Args:
        address: a file (`.db` or `.sqlite` is SQLite, `.jsonl` JSON Lines), or a stream in PostgreSQL:
            `postgresql://user@host/database?stream=shop`.
        redact: paths of values to redact, such as `args.card.number`, `args.*.ssn`, `output.token`.
        key: at least 16 random bytes, which turn hashes into HMACs.
        head: a file for the log's head, updated after every commit; best on another volume.
        durable: whether entries are flushed to disk before they are acknowledged. Otherwise they survive the end of
            this process, however it ends, but no loss of power.
        max_bytes: the size at which a file of JSON Lines is closed, and the log goes on in a new one.
        max_age: the age in seconds at which it is closed.
        signing_key: the file of a private key, which signs the log: see `signatures`.
        clock: returns seconds since the epoch.

    Attributes:
        name: names the log in messages, without any password.
        path: the file; None if the log is not a file.

    Raises:
        InputError: the key, a path, the address or a limit is invalid.
        LogError: the log cannot be written, was changed, has another key, or is shorter than its head records.
    """

    def __init__(
        self,
        address: Path | str,
        *,
        redact: Iterable[str] = (),
        key: bytes | None = None,
        head: Path | str | None = None,
        durable: bool = True,
        max_bytes: int | None = None,
        max_age: float | None = None,
        signing_key: Path | str | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._signer, self._signed = None if signing_key is None else SigningKey(signing_key), 0
        self._is_unsigned = False  # whether this process has appended something since its last signature
        self.path = None if is_address(address) else Path(address)
        rotation = None if max_bytes is max_age is None else Rotation(max_bytes, max_age, clock)
        self._chain = Chain(checked_key(key, "key") if key is not None else None)
        self._entries = RecordEncoder(redact, self._chain, clock)
        self._head_file = HeadFile(Path(head), self._chain) if head is not None else None
        self._address = address
        self._store = open_store(address, durable=durable, rotation=rotation)
        self.name = self._store.name
        self._appends_within = getattr(self._store, "appends_within", False)  # another package's store may lack it
        self._last_seen: Entry | None = None  # the last entry seen
        try:
            self._require_head()
        except BaseException:
            self._store.close()
            raise
        self._closed = False
        self._lock_held = self._forked_mid_commit = False  # by a fork: before it; it happened during a commit
        self._start()
        _open.add(self)

    def _start(self) -> None:
        self._pending: deque[_PendingEntry] = deque()
        self._committing = threading.Lock()
        self._workers: ThreadPoolExecutor | None = None

    def append(self, record: Mapping[str, Any]) -> int:
        """Appends an entry, and waits until it is committed.

        Args:
            record: its fields, with a `kind`; any values. The log adds the time and the hashes of inputs.

        Returns:
            Its sequence number, from 1.

        Raises:
            LogError: it could not be written, or it is unknown whether it was.
        """
        return self.append_prepared(self.prepare(record))

    def prepare(self, record: Mapping[str, Any]) -> str:
        """Returns the JSON of a record, to be written now or later: redacted, with the current time.

        Raises:
            LogError: it cannot be logged.
        """
        text = self._entries.encode(record)
        return text if self._signer is None else self._signer.signed(text)

    def append_prepared(self, text: str) -> int:
        """Appends the result of `prepare`, like `append`."""
        return self._wait_for_commit(self._enqueue(text))

    def append_all(self, texts: Iterable[str], *, seconds: float) -> None:
        """Appends several results of `prepare` in their order, with one commit.

        Args:
            texts: the results.
            seconds: how long it may wait for others who write; 0 also refuses a log that is not in an SQLite file.

        Raises:
            LogError: not all of them could be written, or it is unknown whether they were.
            StoreBusyError: others write for so long; nothing was written.
        """
        if seconds and not self._appends_within:
            waiting = [self._enqueue(text) for text in texts]
            for entry in waiting:
                self._wait_for_commit(entry)
            return
        if not self._appends_within:
            raise StoreBusyError(f"{self.name}: is not written at once")
        with held_lock(self._committing, seconds=seconds):
            self._require_open()
            self._commit([_PendingEntry(text) for text in texts], seconds=seconds)

    @property
    def last_seq(self) -> int:
        """The number of the last entry seen here; 0 if there is none."""
        return self._last_seen.seq if self._last_seen is not None else 0

    def since(self, seq: int) -> list[str]:
        """Returns the contents of the entries after the one with this number.

        Raises:
            GuardError: the log cannot be read.
        """
        return [
            entry.text
            for entry in takewhile(lambda log_entry: log_entry.seq > seq, open_reader(self._address).backwards())
        ]

    async def aappend(self, record: Mapping[str, Any]) -> int:
        """Appends without blocking the event loop. The entry is written even if the task is cancelled."""
        waiting = self._enqueue(self.prepare(record))
        if self._workers is None:
            self._workers = ThreadPoolExecutor(max_workers=1, thread_name_prefix="guardagent-log")
        try:
            future = self._workers.submit(self._wait_for_commit, waiting)
        except RuntimeError as error:  # the log was closed, or the interpreter is exiting
            raise LogError(f"{self.name}: the log cannot be written: {error}") from None
        return await asyncio.shield(asyncio.wrap_future(future))

    def head(self) -> Head:
        """Returns the current end of the log, to be kept in another place.

        Raises:
            LogError: the log cannot be read, or was changed.
        """
        with self._committing:
            self._require_open()
            last = self._store.last()
            self._require_end(last)
            return Head.after(last, self._chain, self._signer)

    def sign(self) -> int | None:
        """Signs everything up to the last entry, by a new one. Returns its number; None if that was done already.

        Raises:
            InputError: the log has no signing key.
            LogError: it cannot be written, or was changed.
        """
        if self._signer is None:
            raise InputError(f"{self.name}: there is no key to sign with; expected AuditLog(..., signing_key=FILE)")
        with self._committing:
            self._require_open()
            self._require_end(last := self._store.last())
            if last is None or last.seq == self._signed:
                return None
            self._commit([], is_signed=True)
            return self._signed

    def anchor(self, removed: int) -> int:
        """Appends an entry that allows the removal of all entries up to this number, and returns its own number.

        Raises:
            InputError: the log has no such entry, or cannot be read.
            LogError: that entry was changed, or the log cannot be written.
        """
        return self.append(anchor_record(open_reader(self._address), self._chain, removed))

    def close(self) -> None:
        """Commits the queue. Nothing can be appended afterwards."""
        with self._committing:
            if not self._closed:
                while self._pending:
                    self._commit_batch()
                if self._signer is not None and self._is_unsigned:
                    with contextlib.suppress(LogError):  # everything that was acknowledged is in the log
                        self._commit([], is_signed=True)
                self._closed = True
                self._store.close()
        if self._workers is not None:
            self._workers.shutdown(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- committing

    def _enqueue(self, text: str) -> _PendingEntry:
        self._require_open()
        waiting = _PendingEntry(text)
        self._pending.append(waiting)
        return waiting

    def _wait_for_commit(self, waiting: _PendingEntry) -> int:
        with self._committing:
            while not waiting.settled:
                self._require_open()
                self._commit_batch()
        if waiting.error is not None:
            raise LogError(waiting.error)
        return waiting.seq

    def _commit_batch(self) -> None:
        """Commits the queued entries in order, up to the size of a batch."""
        batch = [self._pending.popleft() for _ in range(min(len(self._pending), _BATCH_SIZE))]
        try:
            self._commit(batch)
        except LogError as error:
            _fail(batch, str(error))
        except BaseException:
            _fail(batch, f"{self.name}: interrupted; it is unknown whether this was logged")
            raise

    def _commit(self, batch: list[_PendingEntry], *, is_signed: bool = False, **options: float) -> None:
        entries: list[Entry] = []
        signature: list[Entry] = []

        def make(last: Entry | None, own: Sequence[Mapping[str, Any]]) -> list[Entry]:
            self._require_end(last)
            entries[:] = self._chain.link(
                last, [*map(self._entries.encode, own), *(pending_entry.text for pending_entry in batch)]
            )
            last = entries[-1] if entries else last
            if self._signer is not None and last is not None and (is_signed or last.seq - self._signed >= SIGN_EVERY):
                record = self._entries.encode(self._signer.record(last.seq, last.hash))
                signature[:] = self._chain.link(last, [record])
            else:
                signature.clear()
            return [*entries, *signature]

        self._store.append(make, **options)
        self._last_seen = [*entries, *signature][-1]
        self._signed, self._is_unsigned = (signature[-1].seq, False) if signature else (self._signed, True)
        if self._head_file is not None:
            self._head_file.update(Head.after(self._last_seen, self._chain, self._signer))
        for batch_entry, entry in zip(batch, entries[len(entries) - len(batch) :], strict=True):
            batch_entry.seq = entry.seq

    def _require_end(self, last: Entry | None) -> None:
        """Makes sure that the end of the file is valid, unless this process wrote it."""
        known = self._last_seen
        if last == known and known is not None:
            return
        if known is not None and (last is None or last.seq <= known.seq):
            raise LogError(f"{self.name}: entry {known.seq:,} was cut off or changed; nothing is added to the log")
        if last is not None and last.keyed and not self._chain.keyed:
            raise LogError(f"{self.name}: was written with a key; expected that key")
        if last is not None and (problem := self._chain.entry_problem(last)):
            raise LogError(f"{self.name}: entry {last.seq:,} {problem}; nothing is added to the log")
        self._last_seen = last

    def _require_head(self) -> None:
        """Makes sure that the log is at least as long as its head, which is read first: others may append meanwhile."""
        stored = self._head_file.read() if self._head_file is not None else None
        last = self._store.last()
        self._require_end(last)
        if stored is not None and self._head_file is not None:
            self._head_file.require_not_shorter(stored, Head.after(last, self._chain))

    def _require_open(self) -> None:
        if self._closed:
            raise LogError(f"{self.name}: the log is closed")
        if self._forked_mid_commit:
            raise LogError(f"{self.name}: this process was forked during a commit; open the log again")

    # --- forks: SQLite must be closed, since a child inherits its record of its locks but not the locks

    def before_fork(self) -> None:
        """Waits for the current commit, and closes the file."""
        self._lock_held = self._committing.acquire(timeout=_FORK_WAITS)
        if self._lock_held:
            self._store.close()

    def after_fork(self) -> None:
        """Continues in the parent."""
        if self._lock_held:
            self._lock_held = False
            self._committing.release()

    def after_fork_in_child(self) -> None:
        """Leaves the queue to the parent."""
        self._forked_mid_commit, self._lock_held = not self._lock_held, False
        self._start()


def _fail(batch: Iterable[_PendingEntry], error: str) -> None:
    for pending_entry in batch:
        pending_entry.error = error


os.register_at_fork(
    before=lambda: list(map(AuditLog.before_fork, tuple(_open))),
    after_in_parent=lambda: list(map(AuditLog.after_fork, tuple(_open))),
    after_in_child=lambda: list(map(AuditLog.after_fork_in_child, tuple(_open))),
)
