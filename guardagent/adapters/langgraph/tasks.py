"""The host's tasks: each runs one or more calls, and runs again from its start after it was interrupted.

LangGraph hands answers of people to the `interrupt()` calls of a task in the order in which these come. Calls of one
task run side by side, so that this order is no order of theirs: an answer could reach a call that it was not given for.
So each task here keeps what was asked, in order, and when it runs again it takes all answers before anything else.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_TASKS = 10_000
_NO_ANSWER = object()


class CannotAskError(Exception):
    """A person cannot be asked here; says why."""


@dataclass(slots=True, eq=False)
class Asked:
    """A call that a person was asked about.

    Attributes:
        key: the call and its arguments.
        payload: what was shown.
        answer: what came back.
        spent: a call has run on it.
    """

    key: Any
    payload: Mapping[str, Any]
    answer: Any = _NO_ANSWER
    spent: bool = False

    @property
    def is_answered(self) -> bool:
        return self.answer is not _NO_ANSWER


@dataclass(slots=True)
class Task:
    """One task, through all its runs.

    Attributes:
        ended: call -> what the host was given for it: it does not run again.
        under_way: the calls that are running.
        paused: call -> what is in flight of a tool that has interrupted the run by itself.
        asked: what people were asked, in order.
        run: stands for the current run.
        pending: the interrupt with which the current run stops.
        foreign: a tool has interrupted this task by itself.
    """

    lock: threading.RLock = field(default_factory=threading.RLock)
    ended: dict[Any, Any] = field(default_factory=dict)
    under_way: set[Any] = field(default_factory=set)
    paused: dict[Any, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    run: Any = None
    pending: BaseException | None = None
    foreign: bool = False

    def begin(self, key: Any) -> bool:
        """Whether a call may begin: not while the same one is under way from an earlier run of the task."""
        with self.lock:
            free = key not in self.under_way
            if free and key not in self.ended:
                self.under_way.add(key)
            return free

    def enter(self, run: Any) -> None:
        """A call begins. Raises the host's interrupt while people have not answered all that was asked."""
        from langgraph.errors import GraphInterrupt

        with self.lock:
            if self.run is not run:
                self.run, self.pending = run, None
                try:
                    for one in self.asked:
                        one.answer = _asked_of_host(one.payload)
                except GraphInterrupt as error:
                    self.pending = error
            if self.pending is not None:
                raise self.pending

    def ask(self, key: Any, payload: Mapping[str, Any], *, alone: bool) -> Asked:
        """What a person says of a call. Raises the host's interrupt where nobody has said anything yet.

        Args:
            key: the call and its arguments.
            payload: what to show.
            alone: the task has no other call.

        Raises:
            CannotAskError: an answer could reach the wrong call.
        """
        from langgraph.errors import GraphInterrupt

        with self.lock:
            for one in self.asked:
                if one.key == key and one.is_answered and not one.spent:
                    return one
            if self.foreign and not alone:
                raise CannotAskError("another tool that runs beside it has interrupted the run; propose it by itself")
            one = Asked(key, payload)
            if self.pending is not None:  # asked about when that is answered
                self.asked.append(one)
                raise self.pending
            try:
                one.answer = _asked_of_host(payload)
            except GraphInterrupt as error:
                self.asked.append(one)
                self.pending = error
                raise
            self.asked.append(one)
            if not alone:  # asked before this process began: which call the answer is for is not known
                one.spent = True
                raise CannotAskError("the answer was given to another process, and may be for another call")
            return one

    def interrupted(self, error: BaseException) -> BaseException:
        """A call ends with the host's interrupt: which one the run stops with."""
        with self.lock:
            if self.pending is None:
                self.foreign = True
                return error
            return self.pending

    @property
    def waits(self) -> bool:
        """Whether it will run again, as far as is known here."""
        return bool(self.under_way or self.paused or not all(one.is_answered for one in self.asked))


class Tasks:
    """The tasks of all conversations: the newest, and those that wait for a person."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Any, Task] = OrderedDict()

    def of(self, key: Any) -> Task:
        with self._lock:
            task = self._known.setdefault(key, Task())
            self._known.move_to_end(key)
            if len(self._known) > MAX_TASKS:
                oldest = next((one for one, old in self._known.items() if not old.waits and old is not task), None)
                self._known.pop(oldest, None)
            return task


def _asked_of_host(payload: Mapping[str, Any]) -> Any:
    from langgraph.types import interrupt

    return interrupt(dict(payload))
