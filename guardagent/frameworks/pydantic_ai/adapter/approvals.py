"""The host's own approval, and final answers, judged before the user sees them, also in a stream.

For an approval, a run ends with `DeferredToolRequests`, and a later run has the answers.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pydantic_ai import ApprovalRequired, DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models import CompletedStreamedResponse, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel

from guardagent._support.execution import Procedure, adrive
from guardagent.enforcement import Approval, EnforcementPoint, HostCall
from guardagent.enforcement.approval import with_edits
from guardagent.enforcement.host_adapter import HostAdapter, answer_text, last_user_text, withheld
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.errors import InputError
from guardagent.frameworks.pydantic_ai.adapter.runs import PydanticRun, PydanticScope
from guardagent.types import Decision, Verdict, thaw

# --- approval

KEY = "approval"
_BY_THE_HOST = Verdict(Decision.ESCALATE, reasons=("its tool requires approval",))
WAITS = (
    "this run cannot wait for a reviewer: add DeferredToolRequests to its output types, or use ToolGuard(approver=...)"
)
ENDS = (
    "the run ends with the answer in the same message, so that it cannot wait for a reviewer of this call; "
    "propose it by itself"
)
OUTPUT = "an output function cannot wait for a reviewer; use ToolGuard(approver=...)"


def answer_requests(requests: DeferredToolRequests, decisions: Mapping[str, Any]) -> DeferredToolResults:
    """Returns the results with which a run continues, bound to what the reviewers were shown.

    Args:
        requests: the output of the run that waits.
        decisions: the id of a call -> an `Approval`, or a value that `Approval.read` accepts: `True`,
            `{"choice": "edit", "args": {...}}`, ... with arguments as the model writes them. If it names a request as
            `of`, that must be the request of the call.

    Raises:
        InputError: there is no such call, or the answer is for another request.
    """
    results = DeferredToolResults()
    waiting = {approval.tool_call_id for approval in requests.approvals}
    for call_id, decision in decisions.items():
        if call_id not in waiting:
            raise InputError(f"no call {call_id!r} waits for approval; expected one of {sorted(waiting)}")
        request = requests.metadata.get(call_id, {}).get(KEY, {})
        digest = request.get("digest")
        approval = Approval.read(decision)
        if approval.of is not None and (digest is None or _call_digest(approval.of) != _call_digest(digest)):
            raise InputError(f"the answer is for another request than that of {call_id!r}; request approval again")
        results.approvals[call_id] = _host_answer(approval, request)
        results.metadata[call_id] = {KEY: {"digest": approval.of or digest, "by": approval.by, "request": request}}
    return results


def rejections(results: Any) -> Mapping[str, Any]:
    """Returns the ids of the calls that a reviewer has rejected, and the host's metadata of each."""
    decisions = results.approvals if isinstance(results, DeferredToolResults) else {}
    denied = [name for name, decision in decisions.items() if decision is False or isinstance(decision, ToolDenied)]
    return {call_id: results.metadata.get(call_id) for call_id in denied}


def answered_call(conversation: str, call_id: str, metadata: Any, shown: Mapping[str, HostCall]) -> HostCall | None:
    """Returns the call that a reviewer has answered; None if nothing tells it.

    Args:
        conversation: its conversation.
        call_id: its id.
        metadata: the host's, with the request if the answer is one of `answer_requests`.
        shown: the calls that this process has shown, by their ids.
    """
    answered = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    request = answered.get("request") if isinstance(answered, Mapping) else None
    if not isinstance(request, Mapping):
        return shown.get(call_id)
    call = HostCall(str(request.get("tool")), request.get("args") or {}, conversation, id=call_id)
    same = _call_digest(str(request.get("digest"))) == call.digest
    return call if same else shown.get(call_id)


async def record_rejections(guard: EnforcementPoint, run: PydanticRun) -> None:
    """Records the reviewers' rejections in a run, so that no later answer approves these calls."""
    for call_id, metadata in run.rejected.items() if run.conversation else ():
        shown = shown_calls(guard, str(run.conversation))
        call = answered_call(str(run.conversation), call_id, metadata, shown)
        if call is not None:
            await guard.aresolve(call, "reject")


def _host_answer(approval: Approval, request: Mapping[str, Any]) -> ToolApproved | ToolDenied:
    if approval.choice == "reject":
        reason = f": {approval.reason}" if approval.reason else ""
        return ToolDenied(f"A person rejected this call{reason}")
    edited = request.get("args") if request.get("edited") else None  # the host itself knows only the model's call
    return ToolApproved(override_args=thaw(approval.args) if approval.choice == "edit" else edited)


def ask_host(guard: EnforcementPoint, call: HostCall, *, by_host: bool = False) -> Procedure[Verdict]:
    """Ends the run with a request if a rule escalates the call, or if the host itself wants one.

    Returns:
        The verdict, if there is no request.

    Raises:
        ApprovalRequired: with the request as metadata.
    """
    life, shown = guard.lifecycle, as_shown(call)
    verdict = yield from life.preview(shown)
    if verdict.decision is not Decision.ESCALATE:
        if not by_host or verdict.label:
            return verdict
        recorded = yield from life.record_host_request(shown)
        if recorded.label:
            return recorded
        verdict = _BY_THE_HOST
    raise _required(guard, shown, verdict)


def answered(guard: EnforcementPoint, call: HostCall, original: HostCall, metadata: Any) -> Procedure[JudgedCall]:
    """Judges a call that the host's reviewer has approved.

    Args:
        guard: decides.
        call: as it is about to run.
        original: as the model proposed it; the reviewer may have edited it.
        metadata: the host's, of the answer.

    Raises:
        ApprovalRequired: nobody was shown this call, or the edited call needs approval, too.
    """
    of, by = _bound(metadata)
    named = answered_call(str(call.conversation), call.id, metadata, {})
    if named is not None and of is not None and _call_digest(of) == named.digest != original.digest:
        original = replace(original, args=named.args)  # an edited call, which has a request of its own
    life, shown = guard.lifecycle, as_shown(original)
    call = replace(as_shown(call), messages=shown.messages)
    if not guard.has_request(shown):  # of another guard, or the stored call has changed since
        verdict = yield from ask_host(guard, call, by_host=True)
        return verdict, call
    choice = "approve" if call.args == shown.args else "edit"
    approval = Approval(choice, call.args if choice == "edit" else {}, by=by, of=of or shown.digest)  # type: ignore[arg-type] # one of both
    verdict = yield from life.resolve_approval(shown, approval)
    edited = with_edits(shown, approval)
    if verdict.decision is Decision.ESCALATE:
        if life.approver is not None:
            return (yield from life.ask_approver(edited, verdict, life.approver))
        if choice == "edit":  # from now on a bare yes may mean the edited call: it never again covers this one
            yield from life.resolve_approval(shown, Approval("reject", reason="edited", by=by, of=of))
        raise _required(guard, edited, verdict, edited=choice == "edit")
    return verdict, edited


def shown_calls(guard: EnforcementPoint, conversation: str) -> dict[str, HostCall]:
    """Returns the calls that this process has shown to reviewers, by their ids."""
    shown: dict[str, HostCall] = guard.notes(conversation).setdefault("shown", {})
    return shown


def _required(guard: EnforcementPoint, shown: HostCall, verdict: Verdict, *, edited: bool = False) -> ApprovalRequired:
    shown_calls(guard, str(shown.conversation))[shown.id] = shown
    request = guard.request(shown, verdict).to_dict()
    return ApprovalRequired(metadata={KEY: {**request, "edited": True} if edited else request})


def as_shown(call: HostCall) -> HostCall:
    """Returns a call as a reviewer is shown it: a later run does not know its step and its messages."""
    return replace(call, step=None, messages=None, seen=None)


def _bound(metadata: Any) -> tuple[str | None, str | None]:
    """Returns the digest that an answer names, and the reviewer."""
    bound_call = metadata.get(KEY) if isinstance(metadata, Mapping) else None
    bound_call = bound_call if isinstance(bound_call, Mapping) else {}
    of, by = bound_call.get("digest"), bound_call.get("by")
    return (of if isinstance(of, str) else None), (by if isinstance(by, str) else None)


def _call_digest(digest: str) -> str:
    return digest.partition(".")[0]


# --- final answers

_SEARCH = "tool_search"  # only finds tools of the agent, whose calls are judged


class GuardedModel(WrapperModel):
    """The model of a run: no tool of its provider runs unguarded, and it holds a stream whose answer is judged.

    Args:
        wrapped: the model.
        adapter: judges answers.
        run: the run.
        unguarded: the provider's tools that may run.
    """

    def __init__(
        self, wrapped: Any, adapter: HostAdapter[PydanticScope], run: PydanticRun, unguarded: Collection[str]
    ) -> None:
        super().__init__(wrapped)
        self._adapter, self._run, self._unguarded = adapter, run, unguarded

    async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> ModelResponse:
        refuse_native_tools(model_request_parameters.native_tools, self._unguarded)
        return await super().request(messages, model_settings, model_request_parameters)

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, run_context: Any = None
    ) -> AsyncGenerator[Any]:
        refuse_native_tools(model_request_parameters.native_tools, self._unguarded)
        held = self._adapter.guard.judges_answers and self._run.call is None
        async with super().request_stream(messages, model_settings, model_request_parameters, run_context) as stream:
            if not held:
                yield stream
                return
            async for _ in stream:
                pass
            response = await judged_response(self._adapter, self._run, stream.get(), model_request_parameters)
        yield CompletedStreamedResponse(response, model_request_parameters=model_request_parameters, replay_events=True)


def refuse_native_tools(tools: Any, unguarded: Collection[str]) -> None:
    """Refuses the tools that run at the model's provider.

    Raises:
        InputError: the operator has not named one.
    """
    for tool in tools:
        names = [str(getattr(tool, name, "")) for name in ("unique_id", "kind")]
        if not set(names) & {*unguarded, _SEARCH}:
            kind = names[1] or type(tool).__name__
            raise InputError(
                f"{kind!r} runs at the model's provider, where no guard sees it; take it away, or say "
                f"unguarded={{{kind!r}}} if it may run without one"
            )


async def judged_response(
    adapter: HostAdapter[PydanticScope], run: PydanticRun, response: ModelResponse, parameters: ModelRequestParameters
) -> ModelResponse:
    """Judges what a streamed response would answer. Returns the response, or one without the denied answer."""
    outputs = {output_tool.name for output_tool in parameters.output_tools}
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    answers = [call.args_as_json_str() for call in calls if call.tool_name in outputs]
    if text and (run.streamed or all(call.tool_name in outputs for call in calls)):
        answers.append(text)
    for answer in answers:
        verdict = await denial(adapter, run, answer)
        if verdict is not None:
            return without_answer(response, outputs, withheld(verdict))
    return response


async def denial(adapter: HostAdapter[PydanticScope], run: PydanticRun, answer: Any) -> Verdict | None:
    """Returns the verdict that denies a run's final answer; None if the user may see it."""
    text = answer_text(answer)
    if not adapter.guard.judges_answers or run.call is not None or _key(text) in run.passed:
        return None  # the answer of an agent in a tool is for the agent that called it
    verdict = await adrive(adapter.answer_denial(run.around(), last_user_text(run.messages), text))
    run.passed.add(_key(text if verdict is None else withheld(verdict)))
    return verdict


def without_answer(response: ModelResponse, outputs: Collection[str], text: str) -> ModelResponse:
    """Returns a response with a text in place of its answer."""
    kept = [part for part in response.parts if isinstance(part, ToolCallPart) and part.tool_name not in outputs]
    return replace(response, parts=[TextPart(text), *kept])


def forget_answer(messages: list[Any], text: str) -> None:
    """Replaces a denied answer in the messages of a run; an output tool's call stays, without its arguments."""
    last = next((message for message in reversed(messages) if isinstance(message, ModelResponse)), None)
    if last is not None:
        last.parts = [_forgotten(part, text) for part in last.parts if isinstance(part, TextPart | ToolCallPart)]


def _forgotten(part: Any, text: str) -> Any:
    if isinstance(part, TextPart):
        return TextPart(text)
    return replace(part, args={}) if isinstance(part, ToolCallPart) else part


def _key(text: str) -> str:
    """Normalizes a text so that equal answers compare equal: a model and the JSON that it was read from."""
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return text
