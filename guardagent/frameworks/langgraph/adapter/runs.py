"""The host's tasks: each runs one or more calls, and restarts from the beginning after an interrupt.

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

from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

MAX_TASKS = 10_000
_MAX_RUNS = 16


class CannotAskError(Exception):
    """An approval cannot be requested here; the message has the reason."""


@dataclass(slots=True)
class TaskRun:
    """One run of a task.

    Attributes:
        scratchpad: the host's scratchpad, which identifies the run.
        answers: the reviewer's answer for each call's digest.
        pending: the interrupt that stops the run.
    """

    scratchpad: Any
    answers: dict[str, Any] = field(default_factory=dict)
    pending: BaseException | None = None


@dataclass(slots=True)
class Task:
    """One task, through all its runs.

    Attributes:
        ended: the answer to each call that ran; it does not run again.
        running: the calls that are running.
        paused: the calls in flight whose tools interrupted the run.
        tool_interrupted: whether a tool interrupted this task.
        runs: the newest runs; two may run in parallel.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    ended: dict[Any, Any] = field(default_factory=dict)
    running: set[Any] = field(default_factory=set)
    paused: dict[Any, Any] = field(default_factory=dict)
    tool_interrupted: bool = False
    runs: list[TaskRun] = field(default_factory=list)

    def begin(self, key: Any) -> bool:
        """Whether a call may start: not while another run of the task runs the same call."""
        with self.lock:
            free = key not in self.running
            if free and key not in self.ended:
                self.running.add(key)
            return free

    def enter(self, scratchpad: Any) -> TaskRun:
        """Returns the run in which a call starts. Raises the host's interrupt if the run stops with one."""
        with self.lock:
            run = next((one for one in self.runs if one.scratchpad is scratchpad), None)
            if run is None:
                run = TaskRun(scratchpad, _take_answers(scratchpad))
                self.runs = [*self.runs[1 - _MAX_RUNS :], run]
            if run.pending is not None:
                raise run.pending
            return run

    def ask(self, run: TaskRun, payload: Mapping[str, Any], *, alone: bool) -> Any:
        """Returns the reviewer's answer about a call. Raises the host's interrupt if there is none yet.

        Args:
            run: the run of the call.
            payload: the request to show.
            alone: whether the task has no other call.

        Raises:
            CannotAskError: the answer would reach the wrong call.
        """
        with self.lock:
            if self.tool_interrupted and not alone:
                raise CannotAskError("another tool that runs beside it has interrupted the run; propose it by itself")
            if run.pending is not None:  # asked about when that is answered
                raise run.pending
            try:
                return interrupt(dict(payload))
            except GraphInterrupt as error:
                run.pending = error
                raise

    def interrupted(self, run: TaskRun, error: BaseException) -> BaseException:
        """Returns the interrupt that stops the run after a call raised one."""
        with self.lock:
            if run.pending is None:
                self.tool_interrupted = True
                return error
            return run.pending

    @property
    def is_active(self) -> bool:
        """Whether a call of the task is running or paused."""
        return bool(self.running or self.paused)


class Tasks:
    """The tasks of all conversations: the newest ones, and those that are active."""

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
    """Takes the answers to the guard's requests at the start of a run, before those to a tool's own interrupts."""
    answers: dict[str, Any] = {}
    waiting = [*scratchpad.resume, scratchpad.get_null_resume(consume=False)] if scratchpad is not None else []
    for one in waiting:
        if (named := _digest_of(one)) is None:
            break
        try:
            answers[named] = interrupt({})
        except GraphInterrupt:  # the node has taken it
            break
    return answers


def _digest_of(answer: Any) -> str | None:
    """Returns the digest of the call that an answer names; None if it names none."""
    of = answer.get("of") if isinstance(answer, Mapping) and "choice" in answer else None
    return of.partition(".")[0] if isinstance(of, str) else None
