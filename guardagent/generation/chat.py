"""Requests a turn from a model with tools until the proposed calls comply. A denied call is never released.

All calls of an answer are judged before any part of it is returned. A refused answer goes back to the model with
reasons and remedies. After the last attempt, the turn has a safe ending instead of calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from guardagent.errors import InputError
from guardagent.generation.chat_pieces.candidate_check import CandidateCheck, CandidateChecker
from guardagent.generation.chat_pieces.feedback import ENDINGS, Ending, ending_text, feedback_messages
from guardagent.generation.chat_pieces.turn import GuardedTurn, Outcome, Refusal, ReleasedCall
from guardagent.generation.tool_set import ToolSet, canonical_json
from guardagent.models import load_model, model_name
from guardagent.models.chat import ChatAnswer, ChatModel
from guardagent.policy.language.answer_step import ANSWER, answer_arguments
from guardagent.session.session import Session
from guardagent.session.snapshot import without_answer_text
from guardagent.types import Decision, Message, Usage, freeze

ATTEMPTS = 3
_SAMPLING_TEMPERATURE = 0.7  # at temperature 0, all candidates would be the same

Messages = Sequence[Mapping[str, Any] | Message]


def guarded_chat(
    model: ChatModel | str,
    messages: Messages,
    tools: Sequence[Mapping[str, Any]],
    session: Session,
    *,
    candidates: int = 1,
    attempts: int = ATTEMPTS,
    ending: Ending = "refusal",
    stream: bool = False,
    **options: Any,
) -> GuardedTurn:
    """Returns a model's next turn with only those calls that comply with the session's rules.

    The calls of one answer are judged together, and released all or none. A denied call is excluded from then on. An
    escalated or halting call is returned as `waiting`, without a permit.

    Args:
        model: an OpenAI-compatible model, or its name.
        messages: the conversation so far; it is not changed.
        tools: the tools for the model, in the form of the chat completions API.
        session: judges the calls; released calls are in flight in it.
        candidates: the number of answers per request, if the endpoint supports it; the first that complies is used.
        attempts: the most requests to the model.
        ending: the text if no attempt complies: a short `refusal` with the reason, a `question` to the user, or
            `nothing`.
        stream: whether the endpoint streams its answer. The answer is held back until it is judged.
        options: options of `session.check`, such as `facts`.

    Raises:
        InputError: an argument is invalid.
        ModelError: the model did not answer; no call is in flight then.
    """
    loop = _ChatLoop(messages, tools, session, candidates, attempts, ending, options)
    model = _chat_model(model)
    while True:
        started = time.perf_counter()
        answer = model.chat(loop.messages, loop.tools.definitions, **loop.request_options(stream=stream))
        if (turn := loop.handle(answer, time.perf_counter() - started)) is not None:
            return turn


async def aguarded_chat(
    model: ChatModel | str,
    messages: Messages,
    tools: Sequence[Mapping[str, Any]],
    session: Session,
    *,
    candidates: int = 1,
    attempts: int = ATTEMPTS,
    ending: Ending = "refusal",
    stream: bool = False,
    **options: Any,
) -> GuardedTurn:
    """As `guarded_chat`, for an event loop."""
    loop = _ChatLoop(messages, tools, session, candidates, attempts, ending, options)
    model = _chat_model(model)
    while True:
        started = time.perf_counter()
        conversation = (loop.messages, loop.tools.definitions)
        if (achat := getattr(model, "achat", None)) is not None:
            answer = await achat(*conversation, **loop.request_options(stream=stream))
        else:
            answer = await asyncio.to_thread(model.chat, *conversation, **loop.request_options(stream=stream))
        # No await from here on: a cancellation cannot lose calls that are already in flight.
        if (turn := loop.handle(answer, time.perf_counter() - started)) is not None:
            return turn


def _chat_model(model: ChatModel | str) -> ChatModel:
    found: Any = load_model(model) if isinstance(model, str) else model
    if not isinstance(found, ChatModel):
        raise InputError(f"model {model_name(found)!r} does not support tools; expected an OpenAI-compatible model")
    return found


class _ChatLoop:
    """The state of one turn: `messages` are those of the next request."""

    def __init__(
        self,
        messages: Messages,
        tools: Sequence[Mapping[str, Any]],
        session: Session,
        candidates: int,
        attempts: int,
        kind: Ending,
        options: Mapping[str, Any],
    ) -> None:
        for name, value in (("candidates", candidates), ("attempts", attempts)):
            if type(value) is not int or value < 1:
                raise InputError(f"{name!r} is {value!r}; expected an integer of at least 1")
        if kind not in ENDINGS:
            raise InputError(f"'ending' is {kind!r}; expected one of {', '.join(map(repr, ENDINGS))}")
        if "reserve" in options:
            raise InputError("'reserve' is not an option of guarded_chat: released calls are always reserved")
        self.messages: list[dict[str, Any]] = [_message(place, one) for place, one in enumerate(messages)]
        self.tools = ToolSet(tools)
        self._checker = CandidateChecker(self.tools, session, options)
        self._candidates, self._attempts, self._ending = candidates, attempts, kind
        self._requests = 0
        self._usage = Usage()
        self._refusals: list[Refusal] = []

    def request_options(self, *, stream: bool) -> dict[str, Any]:
        temperature = _SAMPLING_TEMPERATURE if self._candidates > 1 else 0.0
        return {"candidates": self._candidates, "stream": stream, "temperature": temperature}

    def handle(self, answer: ChatAnswer, seconds: float) -> GuardedTurn | None:
        """Judges an answer. Returns the turn, or None if the model must be asked again."""
        self._requests += 1
        self._usage += replace(answer.usage, calls=1, seconds=seconds)
        refused: list[CandidateCheck] = []
        for candidate in answer.candidates[: self._candidates]:
            check = self._checker.check(candidate, self._requests)
            worst = check.worst
            if worst is None or not worst.label:
                return self._calls_turn(check)
            self._refusals += _refusals(check)
            if worst.decision is Decision.HALT or self._checker.session.halted:
                return self._stopped_turn("halted", check)
            refused.append(check)
        for check in refused:  # no other candidate has calls in flight, so this one can still be approved
            if check.worst is not None and check.worst.decision is Decision.ESCALATE:
                return self._stopped_turn("escalated", check)
        if self._requests == self._attempts or not refused:
            return self._ending_turn(refused)
        self.messages += feedback_messages(refused[0])
        return None

    def _calls_turn(self, check: CandidateCheck) -> GuardedTurn:
        calls = []
        for number, call in enumerate(check.calls, 1):
            assert call.verdict is not None
            call_id = call.written.id or f"call_{self._requests}_{number}"
            calls.append(ReleasedCall(call.written.name, freeze(call.args), call.verdict, call.verdict.permit, call_id))
        return self._turn("calls" if calls else "text", check.text, calls=tuple(calls), verdict=check.worst)

    def _stopped_turn(self, outcome: Outcome, check: CandidateCheck) -> GuardedTurn:
        worst = check.worst
        waiting = next(((call.written.name, call.args) for call in check.calls if call.verdict is worst), None)
        return self._turn(outcome, verdict=worst, waiting=waiting)

    def _ending_turn(self, refused: Sequence[CandidateCheck]) -> GuardedTurn:
        policies = self._checker.session.policies
        verdicts = [
            verdict if check.final is None else without_answer_text(policies, verdict)
            for check in refused[:1]
            for verdict in check.verdicts
            if verdict.label
        ]
        text = ending_text(self._ending, verdicts)
        return self._turn("refused", text, verdict=refused[0].worst if refused else None)

    def _turn(self, outcome: Outcome, text: str = "", **values: Any) -> GuardedTurn:
        refusals = tuple(self._refusals)
        return GuardedTurn(outcome, text, refusals=refusals, requests=self._requests, usage=self._usage, **values)


def _message(place: int, message: Mapping[str, Any] | Message) -> dict[str, Any]:
    if isinstance(message, Message):
        return {"role": message.role, "content": message.content}
    if not isinstance(message, Mapping) or "role" not in message:
        raise InputError(f"'messages[{place}]' is not a message; expected a mapping with 'role' and 'content'")
    return dict(message)


def _refusals(check: CandidateCheck) -> list[Refusal]:
    if check.problem:
        return [Refusal(check.attempt, "", "", check.verdicts[0])]
    if check.final is not None:
        return [Refusal(check.attempt, ANSWER, canonical_json(answer_arguments(check.text)), check.final)]
    return [
        Refusal(check.attempt, call.written.name, call.arguments, call.verdict, call.repeated)
        for call in check.calls
        if call.verdict is not None and call.verdict.label
    ]
