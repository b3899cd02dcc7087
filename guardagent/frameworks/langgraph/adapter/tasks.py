"""The host's tasks: each runs one or more calls, and runs again from its start after it was interrupted.

LangGraph hands answers of people to the `interrupt()` calls of a task in the order in which these come. Calls of one
task run side by side, so that this order is no order of theirs. So each run of a task takes all answers to the guard's
questions before anything else, and a call gets the one that names it: an answer holds the digest of what was shown.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_TASKS = 10_000
_MAX_RUNS = 16


class CannotAskError(Exception):
    """A person cannot be asked here; says why."""


@dataclass(slots=True)
class TaskRun:
    """One run of a task.

    Attributes:
        scratchpad: the host's own notes of it, which stand for it.
        answers: digest of a call -> what a person has said of it.
        pending: the interrupt with which it stops.
    """

    scratchpad: Any
    answers: dict[str, Any] = field(default_factory=dict)
    pending: BaseException | None = None


@dataclass(slots=True)
class Task:
    """One task, through all its runs.

    Attributes:
        ended: call -> what the host was given for it: it does not run again.
        running: the calls that are running.
        paused: call -> what is in flight of a tool that has interrupted the run by itself.
        tool_interrupted: a tool has interrupted this task by itself.
        runs: the newest; two may go on at once.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    ended: dict[Any, Any] = field(default_factory=dict)
    running: set[Any] = field(default_factory=set)
    paused: dict[Any, Any] = field(default_factory=dict)
    tool_interrupted: bool = False
    runs: list[TaskRun] = field(default_factory=list)

    def begin(self, key: Any) -> bool:
        """Whether a call may begin: not while the same one is under way from another run of the task."""
        with self.lock:
            free = key not in self.running
            if free and key not in self.ended:
                self.running.add(key)
            return free

    def enter(self, scratchpad: Any) -> TaskRun:
        """The run in which a call begins. Raises the host's interrupt where that stops with one."""
        with self.lock:
            run = next((one for one in self.runs if one.scratchpad is scratchpad), None)
            if run is None:
                run = TaskRun(scratchpad, _take_answers(scratchpad))
                self.runs = [*self.runs[1 - _MAX_RUNS :], run]
            if run.pending is not None:
                raise run.pending
            return run

    def ask(self, run: TaskRun, payload: Mapping[str, Any], *, alone: bool) -> Any:
        """What a person says of a call. Raises the host's interrupt where nobody has said anything.

        Args:
            run: in which it is asked.
            payload: what to show.
            alone: the task has no other call.

        Raises:
            CannotAskError: the answer would reach the wrong call.
        """
        from langgraph.errors import GraphInterrupt

        with self.lock:
            if self.tool_interrupted and not alone:
                raise CannotAskError("another tool that runs beside it has interrupted the run; propose it by itself")
            if run.pending is not None:  # asked about when that is answered
                raise run.pending
            try:
                return _interrupt(payload)
            except GraphInterrupt as error:
                run.pending = error
                raise

    def interrupted(self, run: TaskRun, error: BaseException) -> BaseException:
        """A call ends with the host's interrupt: which one the run stops with."""
        with self.lock:
            if run.pending is None:
                self.tool_interrupted = True
                return error
            return run.pending

    @property
    def is_active(self) -> bool:
        """Whether something of it is under way."""
        return bool(self.running or self.paused)


class Tasks:
    """The tasks of all conversations: the newest, and those of which something is under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Any, Task] = OrderedDict()

    def of(self, key: Any) -> Task:
        with self._lock:
            task = self._known.setdefault(key, Task())
            self._known.move_to_end(key)
            if len(self._known) > MAX_TASKS:
                oldest = next((one for one, old in self._known.items() if not old.is_active and old is not task), None)
                self._known.pop(oldest, None)
            return task


def _take_answers(scratchpad: Any) -> dict[str, Any]:
    """The answers to the guard's questions that a run begins with. They come before those to a tool's own."""
    from langgraph.errors import GraphInterrupt

    answers: dict[str, Any] = {}
    waiting = [*scratchpad.resume, scratchpad.get_null_resume(consume=False)] if scratchpad is not None else []
    for one in waiting:
        if (named := _digest_of(one)) is None:
            break
        try:
            answers[named] = _interrupt({})
        except GraphInterrupt:  # the node has taken it
            break
    return answers


def _digest_of(answer: Any) -> str | None:
    """The digest of the call that an answer is about; None where it names none."""
    of = answer.get("of") if isinstance(answer, Mapping) and "choice" in answer else None
    return of.partition(".")[0] if isinstance(of, str) else None


def _interrupt(payload: Mapping[str, Any]) -> Any:
    from langgraph.types import interrupt

    return interrupt(dict(payload))
