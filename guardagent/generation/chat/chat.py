"""Asks a model that is offered tools, until what it proposes complies: a denied call is never handed on.

Each call is judged before anything of the answer is returned. A refused answer goes back to the model, with the reasons
and what would mend it; after so many attempts a safe ending stands in its place, and no call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from guardagent.errors import InputError
from guardagent.generation.chat.judged import Judge, Judged
from guardagent.generation.chat.offered import Offered
from guardagent.generation.chat.told import ENDINGS, Ending, ending, told_of
from guardagent.generation.chat.turn import GuardedTurn, Outcome, Refusal, ReleasedCall
from guardagent.models import load_model, model_name
from guardagent.models.chat import ChatAnswer, ChatModel
from guardagent.session.session import Session
from guardagent.types import Decision, Message, Usage, freeze

ATTEMPTS = 3
_VARIED = 0.7  # the temperature of several candidates, which would else be one and the same

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
    """A model's next turn, of which only calls that comply with the session's rules come back.

    The calls of one answer are judged together; all of them are released or none. A call that was denied is excluded
    from then on. One that escalates or halts comes back as such, without a permit.

    Args:
        model: an OpenAI-compatible model, or its name.
        messages: the conversation so far; it is not changed.
        tools: what the model is offered, as the chat completions API has it.
        session: judges the calls, and holds those in flight that were released.
        candidates: how many answers are asked for at once, where the endpoint has that; the first that complies wholly
            is taken.
        attempts: how often the model is asked at most.
        ending: what stands in the place of calls that no attempt got right: a short `refusal` with the reason, a
            `question` to the user, or `nothing`.
        stream: whether the endpoint is to send its answer bit by bit. All of it is held until it was judged.
        options: those of `session.check`, such as `facts`.

    Raises:
        InputError: an argument is wrong.
        ModelError: the model did not answer; nothing is in flight then.
    """
    chatting = _Chatting(messages, tools, session, candidates, attempts, ending, options)
    model = _chat_model(model)
    while True:
        started = time.perf_counter()
        answer = model.chat(chatting.messages, chatting.offered.written, **chatting.wanted(stream=stream))
        if (turn := chatting.take(answer, time.perf_counter() - started)) is not None:
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
    chatting = _Chatting(messages, tools, session, candidates, attempts, ending, options)
    model = _chat_model(model)
    while True:
        started = time.perf_counter()
        given = (chatting.messages, chatting.offered.written)
        if (achat := getattr(model, "achat", None)) is not None:
            answer = await achat(*given, **chatting.wanted(stream=stream))
        else:
            answer = await asyncio.to_thread(model.chat, *given, **chatting.wanted(stream=stream))
        # Without a pause between: nobody can be cancelled with calls in flight that were never returned.
        if (turn := chatting.take(answer, time.perf_counter() - started)) is not None:
            return turn


def _chat_model(model: ChatModel | str) -> ChatModel:
    found: Any = load_model(model) if isinstance(model, str) else model
    if not isinstance(found, ChatModel):
        raise InputError(f"model {model_name(found)!r} cannot be offered tools; expected an OpenAI-compatible one")
    return found


class _Chatting:
    """Where the asking for one turn stands: `messages` is what the model is asked with next."""

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
                raise InputError(f"{name} is {value!r}; expected a whole number from 1")
        if kind not in ENDINGS:
            raise InputError(f"ending is {kind!r}; expected one of {', '.join(ENDINGS)}")
        if "reserve" in options:
            raise InputError("guarded_chat takes no `reserve`; what it releases is to run")
        self.messages: list[dict[str, Any]] = [_message(place, one) for place, one in enumerate(messages)]
        self.offered = Offered(tools)
        self._judge = Judge(self.offered, session, options)
        self._candidates, self._attempts, self._ending = candidates, attempts, kind
        self._asked = 0
        self._usage = Usage()
        self._refusals: list[Refusal] = []

    def wanted(self, *, stream: bool) -> dict[str, Any]:
        temperature = _VARIED if self._candidates > 1 else 0.0
        return {"candidates": self._candidates, "stream": stream, "temperature": temperature}

    def take(self, answer: ChatAnswer, seconds: float) -> GuardedTurn | None:
        """What came of an answer; None where the model is to be asked again."""
        self._asked += 1
        self._usage += replace(answer.usage, calls=1, seconds=seconds)
        refused: list[Judged] = []
        for candidate in answer.candidates[: self._candidates]:
            judged = self._judge.judge(candidate, self._asked)
            worst = judged.worst
            if worst is None or not worst.label:
                return self._released(judged)
            self._refusals += _refusals(judged)
            if worst.decision is Decision.HALT or self._judge.session.halted:
                return self._waiting("halted", judged)
            refused.append(judged)
        for judged in refused:  # of no other candidate anything is in flight, so that it can still be approved
            if judged.worst is not None and judged.worst.decision is Decision.ESCALATE:
                return self._waiting("escalated", judged)
        if self._asked == self._attempts or not refused:
            return self._ended(refused)
        self.messages += told_of(refused[0])
        return None

    def _released(self, judged: Judged) -> GuardedTurn:
        calls = []
        for number, call in enumerate(judged.calls, 1):
            assert call.verdict is not None
            call_id = call.written.id or f"call_{self._asked}_{number}"
            calls.append(ReleasedCall(call.written.name, freeze(call.args), call.verdict, call.verdict.permit, call_id))
        return self._turn("calls" if calls else "text", judged.text, calls=tuple(calls), verdict=judged.worst)

    def _waiting(self, outcome: Outcome, judged: Judged) -> GuardedTurn:
        worst = judged.worst
        waiting = next(((call.written.name, call.args) for call in judged.calls if call.verdict is worst), None)
        return self._turn(outcome, verdict=worst, waiting=waiting)

    def _ended(self, refused: Sequence[Judged]) -> GuardedTurn:
        verdicts = [verdict for judged in refused[:1] for verdict in judged.verdicts if verdict.label]
        said = ending(self._ending, verdicts)
        return self._turn("refused", said, verdict=refused[0].worst if refused else None)

    def _turn(self, outcome: Outcome, text: str = "", **values: Any) -> GuardedTurn:
        refusals = tuple(self._refusals)
        return GuardedTurn(outcome, text, refusals=refusals, asked=self._asked, usage=self._usage, **values)


def _message(place: int, message: Mapping[str, Any] | Message) -> dict[str, Any]:
    if isinstance(message, Message):
        return {"role": message.role, "content": message.content}
    if not isinstance(message, Mapping) or "role" not in message:
        raise InputError(f"messages[{place}] is no message; expected a mapping with `role` and `content`")
    return dict(message)


def _refusals(judged: Judged) -> list[Refusal]:
    if judged.problem:
        return [Refusal(judged.attempt, "", "", judged.verdicts[0])]
    return [
        Refusal(judged.attempt, call.written.name, call.arguments, call.verdict, call.repeated)
        for call in judged.calls
        if call.verdict is not None and call.verdict.label
    ]
