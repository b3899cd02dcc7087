"""The judged requests of a client: their rounds, their outcomes, and the results that the client gets.

A call may take several rounds: it waits for approval, or the tool requests input and is called again. Since protocol
2026-07-28 a server cannot send requests while a call is running. The result requests input (`input_required`), and the
client repeats the call with the answers. It is judged and counted once.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from guardagent._support.execution import Operation, Procedure, adrive
from guardagent.enforcement import Approval, ApprovalRequest, EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.approval import edit_note
from guardagent.enforcement.lifecycle import MAX_REQUESTS, JudgedCall
from guardagent.errors import InputError, ToolDenied, ToolTimeoutError, error_text
from guardagent.frameworks.mcp.adapter import calls
from guardagent.frameworks.mcp.adapter.calls import DENIED, Message, denial_message, params_of
from guardagent.frameworks.mcp.adapter.catalogue import Catalogue
from guardagent.types import Decision, Verdict, sorted_json, thaw

# --- calls of several rounds

MAX_KEPT = 1000  # calls that wait for a repetition by the client
_Key = tuple[str | None, str, str]
Ask = Callable[[ApprovalRequest], Awaitable[Approval | None]]
"""Requests approval, and returns the answer; None if there is no reviewer."""


class InputRequiredSignal(Exception):  # noqa: N818 - no error
    """Raised to return a result that requests approval; its argument is the result."""


class Rounds:
    """The calls that the client will repeat."""

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard = guard
        self._waiting: dict[str, tuple[_Key, HostCall]] = {}
        self._open: dict[tuple[_Key, Any], HostCall] = {}

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

    def decide(
        self,
        proposed: HostCall,
        state: Any,
        answer: Callable[[], Approval],
        ask: Ask,
        by_result: Callable[[], bool] = lambda: False,
    ) -> Procedure[JudgedCall]:
        """Judges a call. Returns the verdict and the call with the reviewer's edits.

        Args:
            proposed: the proposed call.
            state: the state that the client sends back.
            answer: reads the reviewer's answer, if the state is one of ours.
            ask: requests approval.
            by_result: whether a result requests approval instead, and the client repeats the call.

        Raises:
            InputRequiredSignal: the result.
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
            request = self._guard.request(call, verdict)
            if by_result():
                _keep(self._waiting, state := secrets.token_hex(16), (_key_of(proposed), call))
                raise InputRequiredSignal(calls.asking_result(request, state))
            approval = yield Operation(asking := partial(ask, request), asking)
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


# --- one request

_NOT_SENT = "the time that the policy gives the tool has passed before the server could be reached; it has not run"
_CANCELLED = "the call was cancelled before the server received it; it has not run"
Forward = Callable[[Mapping[str, Any]], Awaitable[Any]]


class ErrorResponseError(Exception):
    """The client gets an error.

    Attributes:
        error: what the response has as its error.
        outcome: the outcome of the call, if it was sent on.
    """

    def __init__(self, error: Any, outcome: Outcome | None = None) -> None:
        super().__init__(error)
        self.error, self.outcome = error, outcome


@dataclass(frozen=True, slots=True)
class ClientRequest:
    """A judged request of a client.

    Attributes:
        message: the request.
        conversation: its conversation.
        ask: requests approval.
        by_result: whether a result requests approval instead.
        modern: whether results have a type (protocol 2026-07-28).
        may_have_run: false while it is known that the server has not received it.
    """

    message: Mapping[str, Any]
    conversation: str | None
    ask: Ask
    by_result: bool
    modern: bool
    may_have_run: Callable[[], bool] = lambda: True

    @property
    def tool(self) -> str:
        """The name of the called tool, or the method."""
        name, method = params_of(self.message).get("name"), self.message["method"]
        return name if method == calls.TOOL and isinstance(name, str) and name else str(method)

    def outcome_of(self, error: BaseException) -> Outcome:
        """Returns the outcome of the call that raised this. One that the server has not received has not run."""
        if self.may_have_run():
            return Outcome.of_error(error)
        if isinstance(error, ToolTimeoutError):
            return Outcome(_NOT_SENT, failed=True)
        return Outcome(error_text(error) if isinstance(error, Exception) else _CANCELLED, failed=True)


class ClientCalls:
    """Judges the requests of clients.

    Args:
        guard: makes the decisions.
        catalogue: the tools.
        client: whether the client receives approval requests if it can show forms.
    """

    def __init__(self, guard: EnforcementPoint, catalogue: Catalogue, *, client: bool = True) -> None:
        self._guard, self._catalogue, self._client = guard, catalogue, client
        self.rounds = Rounds(guard)

    async def answer(self, request: ClientRequest, forward: Forward) -> Any:
        """Judges a request, and sends it on if it is allowed. Returns the result for the client.

        Args:
            request: the request.
            forward: sends the request on with these parameters, and returns the result. May raise ErrorResponseError.

        Raises:
            ErrorResponseError: it is denied and not a call of a tool, or `forward` raises it.
        """
        message, params = request.message, params_of(request.message)
        try:
            call = calls.client_call(message["method"], params, request.conversation, self._catalogue.call)
        except InputError as error:
            return await self.refuse(request, str(error))
        state = params.get("requestState")
        if (known := self.rounds.resume(call, state)) is not None:
            return await self._execute(request, forward, known, call, thaw(known.args))
        if self.rounds.is_ours(state):  # the guard requested this round, so the server must not see it
            shown = {name: value for name, value in params.items() if name not in ("inputResponses", "requestState")}
            message = {**message, "params": shown}
        answer = partial(calls.answer_in, params)
        judged = self.rounds.decide(call, state, answer, request.ask, lambda: request.by_result)
        try:
            allowed, args = await adrive(self._guard.lifecycle.authorize(call, judged))
        except InputRequiredSignal as signal:
            return signal.args[0]
        except ToolDenied as denied:
            return self._denied(request, denied.verdict)
        return await self._execute(replace(request, message=message), forward, allowed, call, args)

    async def refuse(self, request: ClientRequest, problem: str) -> Any:
        """Refuses a request that cannot be judged. Returns the result for the client.

        Raises:
            ErrorResponseError: it is not a call of a tool.
        """
        args = params_of(request.message).get("arguments")
        call = HostCall(request.tool, args if isinstance(args, Mapping) else {}, request.conversation)
        return self._denied(request, await self._guard.arefuse(call, problem))

    def _denied(self, request: ClientRequest, verdict: Verdict) -> Message:
        data = {"decision": str(verdict.decision), "rules": list(verdict.rules)}
        return _error_result(request, denial_message(verdict, client=self._client), data)

    async def _execute(
        self, request: ClientRequest, forward: Forward, call: HostCall, proposed: HostCall, args: Mapping[str, Any]
    ) -> Any:
        problem: str | None = None

        def outcome(answer: Any) -> Outcome:
            nonlocal problem
            if isinstance(answer, Mapping) and answer.get("resultType") == "input_required":
                self.rounds.leave_open(proposed, answer.get("requestState"), call)
            if request.message["method"] == calls.TOOL:
                problem = self._catalogue.output_problem(request.tool, answer)
            return calls.outcome_of({"result": answer}) if problem is None else Outcome(problem, failed=None)

        def failure(error: BaseException) -> Outcome:
            known = error.outcome if isinstance(error, ErrorResponseError) else None
            return known or request.outcome_of(error)

        note = edit_note(proposed, args)
        work = partial(forward, params_of(calls.with_args(request.message, args)))
        try:
            answer = await adrive(self._guard.lifecycle.execute(call, Operation(work, work), outcome, failure, failure))
        except ErrorResponseError as error:
            if note and error.outcome is not None and error.outcome.ended and isinstance(error.error, Mapping):
                error.error = {**error.error, "message": f"{error.error.get('message', '')}\n{note}"}
            raise
        except ToolTimeoutError as error:
            return _error_result(request, str(error) if request.may_have_run() else _NOT_SENT)
        if problem is not None:
            return calls.withheld(answer, problem)
        answer = calls.uncached(answer)
        return calls.with_note(answer, note) if note else answer


def _error_result(request: ClientRequest, why: str, data: Any = None) -> Message:
    """Returns the result of a call of a tool that says why there is none.

    Raises:
        ErrorResponseError: it is another request.
    """
    if request.message["method"] != calls.TOOL:
        raise ErrorResponseError(calls.error(None, DENIED, why, data)["error"])
    modern = {"resultType": "complete"} if request.modern else {}
    return {"content": [{"type": "text", "text": why}], "isError": True, **modern}
