"""Final answers, judged before the user sees them and the host stores them, and the host's own approval.

An approval is a confirmation that a tool requests; the tool runs again once it is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from google.adk.events.event import Event
from google.adk.flows.llm_flows.functions import REQUEST_CONFIRMATION_FUNCTION_CALL_NAME as CONFIRMATION
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.genai import types

from guardagent.enforcement import Approval, EnforcementPoint
from guardagent.enforcement.host_adapter import answer_text, withheld
from guardagent.errors import InputError
from guardagent.frameworks.adk.adapter.runs import AdkRun, text_of
from guardagent.types import Verdict, thaw

# --- final answers

STRUCTURED = SetModelResponseTool.NAME
DENIED = "ANSWER_DENIED"


class AnswerJudge:
    """Judges the answers of runs.

    Args:
        guard: decides.
    """

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard = guard

    def judges(self, run: AdkRun) -> bool:
        """Whether the answers of a run are judged; those of an agent in a tool are for the agent that called it."""
        return self._guard.judges_answers and not run.nested

    async def response(self, run: AdkRun, response: Any, user_text: str, *, structured: bool) -> LlmResponse | None:
        """Judges a model's message. Returns the message in its place if it is a denied answer.

        Args:
            run: its run.
            response: the message.
            user_text: the text of the user.
            structured: whether the agent has an output schema, so that no other text may be its answer.
        """
        parts = getattr(response.content, "parts", None) or ()
        calls = [part.function_call for part in parts if part.function_call is not None]
        if response.partial or any(call.name != STRUCTURED for call in calls):
            return None
        texts = [answer_text(call.args or {}) for call in calls] or [_content_text(response.content)]
        verdict = await self._denial(run, "\n".join(texts), user_text)
        if verdict is None:
            return None
        if structured:
            return LlmResponse(error_code=DENIED, error_message=withheld(verdict))
        return LlmResponse(content=_message(withheld(verdict)))

    async def event(self, run: AdkRun, event: Event, user_text: str) -> Event | None:
        """Judges an event before the user sees it. Returns the event in its place, if it may not be shown as it is."""
        if event.partial:  # a part of a text, or of the arguments of a call that sets the answer
            return _replaced(event, types.Content(role="model", parts=[])) if event.content is not None else None
        if event.get_function_calls():
            return _replaced(event, _without_text(event.content)) if _has_text(event.content) else None
        responses = event.get_function_responses()
        if responses:
            return await self._direct(run, event, responses, user_text)
        text = _content_text(event.content)
        verdict = await self._denial(run, text, user_text) if text else None
        if verdict is not None:
            return _replaced(event, _message(withheld(verdict)))
        return _replaced(event, _without_thoughts(event.content)) if _has_thoughts(event.content) else None

    async def _direct(self, run: AdkRun, event: Event, responses: list[Any], user_text: str) -> Event | None:
        """Judges the outputs of tools that are the answer."""
        waiting = event.actions.requested_tool_confirmations
        shown = [response for response in responses if response.id not in waiting and response.name != STRUCTURED]
        if not event.actions.skip_summarization or not shown:
            return None
        text = "\n".join(answer_text(function_response.response) for function_response in shown)
        verdict = await self._denial(run, text, user_text)
        if verdict is None:
            return None
        kept = [response for response in responses if response.id in waiting]
        denied = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=function_response.id, name=function_response.name, response=response
                )
            )
            for function_response, response in [
                *((function_response, {"error": withheld(verdict)}) for function_response in shown),
                *((function_response, function_response.response) for function_response in kept),
            ]
        ]
        outputs = [
            (function_response.response or {}).get("result") for function_response in shown
        ]  # an agent's `output_key` holds it, too
        state = {
            key: withheld(verdict) if value in outputs else value for key, value in event.actions.state_delta.items()
        }
        changed = _replaced(event, types.Content(role="user", parts=denied))
        return changed.model_copy(update={"actions": event.actions.model_copy(update={"state_delta": state})})

    async def _denial(self, run: AdkRun, text: str, user_text: str) -> Verdict | None:
        """Returns the verdict that denies an answer; None if the user may see it."""
        if not text or text in run.passed or text == run.final:
            return None
        verdict = await self._guard.aanswer(run.conversation or "", user_text, text)
        run.passed.add(withheld(verdict) if verdict.label else text)
        if verdict.label:
            run.note("answer", verdict)
        return verdict if verdict.label else None


def _replaced(event: Event, content: Any) -> Event:
    """Returns an event with other content, and without what the host has derived from it."""
    return event.model_copy(
        update={"content": content, "output": None, "grounding_metadata": None, "citation_metadata": None}
    )


def _message(text: str) -> types.Content:
    return types.Content(role="model", parts=[types.Part(text=text)])


def _content_text(content: Any) -> str:
    """Returns all that a user sees of a message: its text, and code with its results."""
    parts = getattr(content, "parts", None) or ()
    more = [part.executable_code.code for part in parts if part.executable_code is not None]
    more += [part.code_execution_result.output for part in parts if part.code_execution_result is not None]
    return "\n".join(text for text in (text_of(content), *more) if text)


def _has_text(content: Any) -> bool:
    return any(part.text for part in getattr(content, "parts", None) or ())


def _has_thoughts(content: Any) -> bool:
    return any(part.thought and part.text for part in getattr(content, "parts", None) or ())


def _without_text(content: Any) -> types.Content:
    return types.Content(role=content.role, parts=[part for part in content.parts if not part.text])


def _without_thoughts(content: Any) -> types.Content:
    return types.Content(role=content.role, parts=[part for part in content.parts if not (part.thought and part.text)])


# --- approval

_CALL, _REQUESTED = "originalFunctionCall", "toolConfirmation"


@dataclass(frozen=True, slots=True)
class AdkQuestion:
    """An approval request that a run waits for.

    Attributes:
        id: the host's id of the request, which its answer repeats.
        request: the request, as `ApprovalRequest.to_dict` writes it.
    """

    id: str
    request: Mapping[str, Any] = field(repr=False)

    @property
    def digest(self) -> str:
        """Identifies what the reviewer sees."""
        return str(self.request["digest"])


def questions(event: Any) -> list[AdkQuestion]:
    """Returns the approval requests of a guard in an event of a run; a model cannot write one."""
    questions, of_the_host = [], event.long_running_tool_ids or ()
    for call in event.get_function_calls():
        payload = _payload(call)
        if call.name == CONFIRMATION and call.id in of_the_host and payload is not None:
            questions.append(AdkQuestion(call.id, payload))
    return questions


def answer(question: AdkQuestion, decision: Any) -> types.Content:
    """Returns a reviewer's answer, as the next message of the session: `runner.run_async(new_message=answer(...))`.

    Args:
        question: one of `questions(event)`.
        decision: an `Approval`, or a value that `Approval.read` accepts: `True`, `{"choice": "edit", "args": {...}}`,
            ... If it names a request as `of`, that must be this one.

    Raises:
        InputError: the answer is for another request.
    """
    approval = Approval.read(decision)
    if approval.of is not None and approval.of.partition(".")[0] != question.digest.partition(".")[0]:
        raise InputError("the answer is for another request than that of the question; request approval again")
    decided: dict[str, Any] = {
        "choice": approval.choice,
        "reason": approval.reason,
        "of": approval.of or question.digest,
    }
    decided |= {"by": approval.by} if approval.by else {}
    decided |= {"args": thaw(approval.args)} if approval.choice == "edit" else {}
    response = {"confirmed": approval.choice != "reject", "payload": decided}
    part = types.Part(function_response=types.FunctionResponse(id=question.id, name=CONFIRMATION, response=response))
    return types.Content(role="user", parts=[part])


def approval_of(context: Any) -> Approval | None:
    """Returns the reviewer's answer with which a tool runs again; None if the guard has not asked about this call.

    A bare yes, such as that of ADK's web interface, is for the request that the session shows for it. An answer that
    names a request itself is for that one.
    """
    confirmation = context.tool_confirmation
    if confirmation is None:
        return None
    shown = _shown_digest(context)
    if shown is None:
        return None  # the host has asked by the tool's own `require_confirmation`
    payload = confirmation.payload if isinstance(confirmation.payload, Mapping) else {}
    if not confirmation.confirmed:
        return Approval("reject", reason=_text_or_nothing(payload.get("reason")), by=payload.get("by"))
    approval = (
        Approval.read(payload)
        if "choice" in payload
        else Approval("approve", of=_text_or_nothing(payload.get("digest")) or None)
    )
    return replace(approval, of=shown if approval.of is None else approval.of)


def _shown_digest(context: Any) -> str | None:
    """Returns the digest of the last request about a call that the session shows, and that the user has answered."""
    answered = set[str]()
    for event in reversed(context.session.events):
        if event.author == "user":
            answered.update(response.id for response in event.get_function_responses() if response.id)
        for call in event.get_function_calls():
            about = (call.args or {}).get(_CALL)
            if call.name != CONFIRMATION or call.id not in answered or not isinstance(about, Mapping):
                continue
            if about.get("id") == context.function_call_id:
                payload = _payload(call)
                return None if payload is None else str(payload["digest"])
    return None


def _payload(call: Any) -> Mapping[str, Any] | None:
    request = (call.args or {}).get(_REQUESTED)
    payload = request.get("payload") if isinstance(request, Mapping) else None
    return payload if isinstance(payload, Mapping) and isinstance(payload.get("digest"), str) else None


def _text_or_nothing(value: Any) -> str:
    return value if isinstance(value, str) else ""
