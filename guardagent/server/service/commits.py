"""Commits the operations of many sessions together: the ledger in one step, then each log, then the answers leave.

An operation that waits for nothing is carried out in memory by the event loop. While a thread commits those of one
group, the next group gathers. An operation whose commit fails (another server went on with the session, a store fails)
is carried out again by itself, after the session was forgotten in memory, together with those that were carried out on
top of it, in their order. Each has its claim, so this does nothing twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool

from guardagent._support.stores import StoreBusyError
from guardagent.enforcement.ledger.staging import HistoryChange, HistoryStore, StagedOperation
from guardagent.errors import LedgerError, LogError
from guardagent.log import AuditLog

_PATIENCE = 10.0  # seconds for which an operation waits for the commit of earlier ones
_SHARED_CALLS = 8  # operations by themselves after one that met those of another server
_MAX_SHARED = 10_000
_LOG_SECONDS = 0.5  # for which a log that others write holds up the operations of other tenants
_QUICK_SECONDS, _PAUSE_SECONDS = 0.005, 1.0  # after a commit in the event loop that takes longer, a thread commits
_log = logging.getLogger("guardagent")

Work = Callable[[], Any]


@dataclass(slots=True)
class _Waiting:
    """An operation that waits for its commit.

    Attributes:
        operation: the operation.
        again: carries it out by itself; may block.
        answer: gets its answer.
    """

    operation: StagedOperation
    again: Work
    answer: asyncio.Future[Any]


@dataclass(slots=True)
class _SessionQueue:
    """The operations of one session that are under way.

    Attributes:
        waiting: how many wait for their commit.
        alone: how many are carried out by themselves, or will be once none waits for its commit; until they end, none
            is carried out in memory.
        idle: what these wait for.
    """

    waiting: int = 0
    alone: int = 0
    idle: list[asyncio.Future[None]] = field(default_factory=list)


class _CommitGroup:
    """Operations that are committed together.

    Attributes:
        waiting: the operations, in their order.
        failed: the sessions whose operations were not committed, or perhaps not; None as long as the ledger is not.
    """

    def __init__(self, waiting: Sequence[_Waiting]) -> None:
        self.waiting = waiting
        self.failed: set[str] | None = None

    @property
    def operations(self) -> list[StagedOperation]:
        return [waiting.operation for waiting in self.waiting]

    @property
    def sessions(self) -> set[str]:
        return {operation.conversation for operation in self.operations}

    def commit(self, ledger: HistoryStore, *, at_once: bool = False) -> None:
        """Commits their changes in the ledger in one step, and then their records in the logs.

        Raises:
            GuardError: the ledger fails.
            StoreBusyError: `at_once` is not possible, since others use a store, or it is on a server; the next call
                goes on.
        """
        if self.failed is None:
            self.failed = ledger.commit(self._changes(), seconds=0 if at_once else None)
        logs: dict[AuditLog, list[StagedOperation]] = {}
        for operation in self.operations:
            if operation.conversation not in self.failed:
                for log in {log for log, _ in operation.records}:
                    logs.setdefault(log, []).append(operation)
        for log, operations in logs.items():
            texts = [text for operation in operations for of, text in operation.records if of is log]
            try:
                log.append_all(texts, seconds=0 if at_once else _LOG_SECONDS)
            except (LogError, StoreBusyError) as error:
                if at_once and isinstance(error, StoreBusyError):
                    raise
                _log.error("operations are carried out again by themselves: %s", error)
                self.failed |= {operation.conversation for operation in operations}

    def _changes(self) -> list[HistoryChange]:
        changes: dict[str, HistoryChange] = {}
        for operation in self.operations:
            assert operation.change is not None
            if (earlier := changes.get(operation.conversation)) is None:
                changes[operation.conversation] = operation.change
            else:
                earlier.extend(operation.change)
        return [*changes.values()]


class GatheredWork:
    """Does work for many requests at once. While a thread does that of a group, the next group gathers.

    It belongs to one event loop.

    Args:
        work: does the work for some items, and returns the result or the error of each.
        name: of the thread.
    """

    def __init__(self, work: Callable[[Sequence[Any]], Sequence[Any]], name: str) -> None:
        self._work, self._thread = work, ThreadPoolExecutor(1, name)
        self._gathered: list[tuple[Any, asyncio.Future[Any]]] = []
        self._is_working = False

    async def run(self, item: Any) -> Any:
        """Returns the result of an item, or raises its error."""
        result = asyncio.get_running_loop().create_future()
        self._gathered.append((item, result))
        if not self._is_working:
            self._is_working = True
            self._begin()
        return await result

    def _begin(self) -> None:
        group, self._gathered = self._gathered, []
        items = [item for item, _ in group]
        done = asyncio.get_running_loop().run_in_executor(self._thread, self._work, items)
        done.add_done_callback(lambda done: self._end([result for _, result in group], done))

    def _end(self, awaited: Sequence[asyncio.Future[Any]], done: asyncio.Future[Any]) -> None:
        error = done.exception()
        for future, result in zip(awaited, done.result() if error is None else [error] * len(awaited), strict=True):
            if future.done():  # its client is gone
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)
        if self._gathered:
            self._begin()
        else:
            self._is_working = False


class GroupCommit:
    """Carries out operations on sessions. It belongs to one event loop.

    Args:
        ledger: has the histories of the sessions.
        committed: gets the operations that were committed.
    """

    def __init__(self, ledger: HistoryStore, committed: Callable[[StagedOperation], object]) -> None:
        self._ledger, self._committed = ledger, committed
        self._sessions: dict[str, _SessionQueue] = {}
        self._gathered: list[_Waiting] = []
        self._is_committing = False
        self._shared: dict[str, int] = {}  # a session that other servers use -> operations to carry out by themselves
        self._repetitions: set[asyncio.Future[None]] = set()
        self._thread = ThreadPoolExecutor(1, "commits")
        self._at_once_from = 0.0  # when the event loop may write to files again

    async def run(
        self, session: str, stage: Callable[[], StagedOperation | None], again: Work, *, is_only: bool = False
    ) -> Any:
        """Carries out an operation, in memory if it can be, and returns its answer once it is committed.

        Args:
            session: the session that it concerns.
            stage: carries it out in memory; returns None if something has to wait.
            again: carries it out by itself; may block.
            is_only: whether there is no other request that could join its commit.

        Raises:
            GuardError: as `again`; or the commit takes too long, and may yet succeed.
        """
        queue = self._sessions.get(session)
        operation = None if (queue is not None and queue.alone) or self._is_shared(session) else stage()
        if operation is None:
            return await self.alone(session, again)
        loop = asyncio.get_running_loop()
        waiting = _Waiting(operation, again, loop.create_future())
        self._queue(session).waiting += 1
        self._gathered.append(waiting)
        if not self._is_committing:
            self._is_committing = True
            if is_only:
                self._begin()
            else:
                loop.call_soon(self._begin)
        return await waiting.answer

    async def alone(self, session: str, work: Work) -> Any:
        """Carries out an operation by itself in a thread, once none of the session waits for its commit.

        Raises:
            GuardError: as `work`.
        """
        queue = self._queue(session)
        queue.alone += 1
        try:
            if queue.waiting:
                queue.idle.append(asyncio.get_running_loop().create_future())
                async with asyncio.timeout(_PATIENCE):
                    await queue.idle[-1]
            return await run_in_threadpool(work)
        except TimeoutError:
            raise LedgerError("an earlier operation of the session still waits for its commit") from None
        finally:
            queue.alone -= 1
            self._drop_idle(session)

    def _is_shared(self, session: str) -> bool:
        left = self._shared.get(session, 0)
        if left > 1:
            self._shared[session] = left - 1
        elif left:
            del self._shared[session]
        return left > 0

    def _queue(self, session: str) -> _SessionQueue:
        queue = self._sessions.get(session)
        if queue is None:
            queue = self._sessions[session] = _SessionQueue()
        return queue

    def _drop_idle(self, session: str) -> None:
        queue = self._sessions[session]
        if not (queue.waiting or queue.alone):
            del self._sessions[session]

    # --- commits

    def _begin(self) -> None:
        """Begins to commit what has gathered."""
        waiting, self._gathered = self._gathered, []
        loop = asyncio.get_running_loop()
        group = _CommitGroup(waiting)
        if len(waiting) == 1 and loop.time() >= self._at_once_from:  # a thread would take longer than the commit itself
            started = loop.time()
            try:
                group.commit(self._ledger, at_once=True)
            except StoreBusyError:
                pass
            except Exception as error:  # noqa: BLE001 - as in `_end`
                self._end(group, (), error)
                return
            else:
                self._end(group, ())
                return
            finally:
                if loop.time() - started > _QUICK_SECONDS:
                    self._at_once_from = loop.time() + _PAUSE_SECONDS
        timers = [
            loop.call_later(seconds, self._give_up, waiting, seconds)
            for seconds in {operation.seconds for operation in group.operations}
        ]
        future = loop.run_in_executor(self._thread, group.commit, self._ledger)
        future.add_done_callback(lambda done: self._end(group, timers, done.exception()))

    def _give_up(self, group: Sequence[_Waiting], seconds: float) -> None:
        """Answers that the commit takes too long. It may succeed; a repetition of the request shows which."""
        error = LedgerError(f"the operation was not committed within {seconds:g} seconds")
        for waiting in group:
            if waiting.operation.seconds == seconds and not waiting.answer.done():
                waiting.answer.set_exception(error)

    def _end(
        self, group: _CommitGroup, timers: Sequence[asyncio.TimerHandle], error: BaseException | None = None
    ) -> None:
        for timer in timers:
            timer.cancel()
        if error is not None:  # nothing of the group counts as committed
            _log.error("operations are carried out again by themselves, as their commit failed: %s", error)
        failed = group.failed if error is None and group.failed is not None else group.sessions
        again: dict[str, list[_Waiting]] = {}
        for waiting in group.waiting:
            session = waiting.operation.conversation
            if session in failed:
                again.setdefault(session, []).append(waiting)
                continue
            self._committed(waiting.operation)
            if not waiting.answer.done():
                waiting.answer.set_result(waiting.operation.answer)
            self._settled(session)
        if again:
            self._repeat(again)
        if self._gathered:
            self._begin()
        else:
            self._is_committing = False

    def _settled(self, session: str) -> None:
        """Notes that an operation of a session no longer waits for its commit."""
        queue = self._sessions[session]
        queue.waiting -= 1
        if not queue.waiting:
            for idle in queue.idle:
                if not idle.done():
                    idle.set_result(None)
            queue.idle.clear()
            self._drop_idle(session)

    def _repeat(self, again: dict[str, list[_Waiting]]) -> None:
        """Carries out operations by themselves, and those that were carried out on top of them since."""
        for waiting in self._gathered:
            if (later := again.get(waiting.operation.conversation)) is not None:
                later.append(waiting)
        self._gathered = [waiting for waiting in self._gathered if waiting.operation.conversation not in again]
        for session, operations in again.items():
            self._sessions[session].alone += 1
            operations[0].operation.forget()
            while len(self._shared) >= _MAX_SHARED:
                del self._shared[next(iter(self._shared))]
            self._shared[session] = _SHARED_CALLS
            task = asyncio.ensure_future(self._repeated(session, operations))
            self._repetitions.add(task)  # the event loop keeps no task
            task.add_done_callback(self._repetitions.discard)

    async def _repeated(self, session: str, operations: Sequence[_Waiting]) -> None:
        for waiting in operations:
            try:
                answer = await run_in_threadpool(waiting.again)
            except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
            else:
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)
            self._settled(session)
        self._sessions[session].alone -= 1
        self._drop_idle(session)
