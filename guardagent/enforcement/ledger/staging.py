"""Operations that are judged in memory, on what this process knows of a conversation, and committed together later.

While an operation is staged in a thread, its `FinalLedger` and its `StagedLog` neither read nor write: they note what
the operation has seen and what it would write. Whether it saw everything shows at the commit, which adds nothing to a
conversation whose history has gone on elsewhere.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from guardagent.log import AuditLog

HistoryRow = tuple[int, str, str, str | None]
"""The place of an entry, the policy, the entry, and the id of its call."""


@dataclass(slots=True)
class HistoryChange:
    """The additions of operations to one conversation.

    Attributes:
        conversation: its id.
        after: the place of its last entry as the operations saw it.
        rows: the next entries.
        call_ids: the ids of proposed calls that are not in flight.
        watched: the last place of the watched conversation as the operations that place calls saw it; None without any.
    """

    conversation: str
    after: int
    rows: list[HistoryRow] = field(default_factory=list)
    call_ids: list[str] = field(default_factory=list)
    watched: int | None = None

    @property
    def proposed(self) -> list[str]:
        """The ids of all calls, those in flight too."""
        return [*(row[3] for row in self.rows if row[3] is not None), *self.call_ids]

    def extend(self, later: HistoryChange) -> None:
        """Adds the change of an operation that was judged after this one."""
        if later.after != self.after + len(self.rows):
            self.after = -1  # it saw entries of others in between; nothing is added
        self.rows += later.rows
        self.call_ids += later.call_ids
        self.watched = min((place for place in (self.watched, later.watched) if place is not None), default=None)


Provided = tuple[str, int]
"""A conversation, and the place that its last entry has to have."""


class HistoryStore(Protocol):
    """A ledger that commits operations together."""

    def commit(self, changes: Sequence[HistoryChange], *, seconds: float | None = None) -> set[str]:
        """Adds to several conversations in one step, to each all or nothing.

        Returns:
            The conversations to which nothing was added, since their last entry is another one.

        Raises:
            LedgerError: nothing was added, or it is unknown whether it was.
            StoreBusyError: `seconds` are given, and others use the store for so long, or it is on a server.
        """


@dataclass(slots=True)
class StagedOperation:
    """An operation on one conversation that waits for its commit.

    Attributes:
        conversation: the id of the conversation.
        change: what it adds; None as long as it has not read the history.
        records: the encoded records for logs.
        verdicts: its verdicts, as metrics count them.
        fits: whether everything that it did can be committed later.
        answer: its result.
        seconds: how long it may wait.
        forget: forgets the conversation in memory, which has what the operation did.
    """

    conversation: str
    change: HistoryChange | None = None
    records: list[tuple[AuditLog, str]] = field(default_factory=list)
    verdicts: list[tuple[str, str]] = field(default_factory=list)
    fits: bool = True
    answer: Any = None
    seconds: float = 0.0
    forget: Callable[[], None] = lambda: None

    def saw(self, conversation: str, place: int) -> HistoryChange:
        """Notes the last place of the history as the operation sees it. Returns its change."""
        if self.change is None:
            self.change = HistoryChange(conversation, place)
        self.fits &= conversation == self.conversation
        return self.change


class _Current(threading.local):
    operation: StagedOperation | None = None


_current = _Current()


def staged() -> StagedOperation | None:
    """Returns the operation that is staged in this thread; None if there is none."""
    return _current.operation


@contextlib.contextmanager
def staging(operation: StagedOperation) -> Iterator[None]:
    """Stages an operation in this thread meanwhile."""
    _current.operation = operation
    try:
        yield
    finally:
        _current.operation = None


class StagedLog:
    """A log whose records wait for the commit of the operation that is staged, if there is one.

    Args:
        log: the log.
    """

    def __init__(self, log: AuditLog) -> None:
        self._log = log

    def append(self, record: Mapping[str, Any]) -> None:
        """Appends a record, now or with the commit.

        Raises:
            LogError: as `AuditLog.append`.
        """
        if (operation := staged()) is None:
            self._log.append(record)
            return
        try:
            operation.records.append((self._log, self._log.prepare(record)))
        except Exception:
            operation.fits = False
            raise
