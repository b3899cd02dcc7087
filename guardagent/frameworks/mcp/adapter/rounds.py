"""Calls that take several rounds: they wait for approval, or the tool requests input and is called again.

Since protocol 2026-07-28 a server cannot send requests while a call is running. The result requests input
(`input_required`), and the client repeats the call with the answers. It is judged and counted once.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from guardagent._support.execution import Operation, Procedure
from guardagent.enforcement import Approval, EnforcementPoint, HostCall
from guardagent.enforcement.enforcement_point import MAX_REQUESTS, JudgedCall
from guardagent.types import Decision, Verdict, sorted_json

MAX_KEPT = 1000  # calls that wait for a repetition by the client
_Key = tuple[str | None, str, str]
Ask = Callable[[HostCall, Verdict], Awaitable[Approval | None]]
"""Requests approval: returns the answer, None if there is no reviewer, or raises InputRequiredSignal."""


class InputRequiredSignal(Exception):  # noqa: N818 - no error
    """Raised to return a result that requests approval."""


class Rounds:
    """The calls that the client will repeat."""

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard = guard
        self._waiting: dict[str, tuple[_Key, HostCall]] = {}
        self._open: dict[tuple[_Key, Any], HostCall] = {}

    def ask(self, proposed: HostCall, call: HostCall) -> str:
        """Returns the state that the client sends back with a reviewer's answer."""
        state = secrets.token_hex(16)
        _keep(self._waiting, state, (_key_of(proposed), call))
        return state

    def is_ours(self, state: Any) -> bool:
        """Whether the guard created this state."""
        return isinstance(state, str) and state in self._waiting

    def leave_open(self, proposed: HostCall, state: Any, call: HostCall) -> None:
        """Records that the tool has requested input; the call continues when the client repeats it with this state."""
        _keep(self._open, (_key_of(proposed), state), call)

    def resume(self, proposed: HostCall, state: Any) -> HostCall | None:
        """Returns the open call that continues, once; None if there is none."""
        if not self._open:
            return None
        return self._open.pop((_key_of(proposed), state if isinstance(state, str) else None), None)

    def decide(self, proposed: HostCall, state: Any, answer: Callable[[], Approval], ask: Ask) -> Procedure[JudgedCall]:
        """Judges a call. Returns the verdict and the call with the reviewer's edits.

        Args:
            proposed: the proposed call.
            state: the state that the client sends back.
            answer: reads the reviewer's answer, if the state is one of ours.
            ask: requests approval.

        Raises:
            InputRequiredSignal: raised by `ask`.
        """
        life = self._guard.lifecycle
        key, shown = self._waiting.pop(state, (None, None)) if self.is_ours(state) else (None, None)
        if shown is not None and key == _key_of(proposed):
            verdict, call = yield from life.apply_answer(shown, answer())  # the reviewer saw exactly this call
        else:
            verdict, call = yield from life.judge(proposed)
        for _ in range(MAX_REQUESTS):
            if verdict.decision is not Decision.ESCALATE or self._guard.approver is not None:
                break
            asking = partial(ask, call, verdict)
            approval = yield Operation(asking, asking)
            if approval is None:
                break
            verdict, call = yield from life.apply_answer(call, approval)
        return verdict, call


def _key_of(call: HostCall) -> _Key:
    """Returns a key of a call as proposed, independent of its message id."""
    return (call.conversation, call.tool, sorted_json(call.args))


def _keep(kept: dict[Any, Any], key: Any, value: Any) -> None:
    """Removes the oldest calls, in case a client never repeats them."""
    kept[key] = value
    while len(kept) > MAX_KEPT:
        del kept[next(iter(kept))]
