"""Guarded chat: requests a turn from a model with tools until its calls comply. No denied call is released.

    guarded_chat     the released and the refused calls of a turn
    aguarded_chat    the same, for an event loop

All calls of an answer are judged before any part of it is returned: all of them may run, or none. A refused answer goes
back to the model with reasons and remedies. After the last attempt, the turn has a safe ending instead of calls.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from guardagent.errors import InputError
from guardagent.generation.tool_set import ToolSet, canonical_json, without_surrogates
from guardagent.models import load_model, model_name
from guardagent.models.chat import ChatAnswer, ChatCandidate, ChatModel, WrittenCall
from guardagent.policy.language import ANSWER, answer_arguments
from guardagent.session.replan import AllowedCall, ProposedCall, judge_jointly, withdraw
from guardagent.session.session import Session
from guardagent.session.verdicts import without_answer_text
from guardagent.types import Decision, Message, Usage, Verdict, denial_message, freeze, unchecked_verdict

Key = tuple[str, ...]  # a call with its exact arguments


@dataclass(slots=True)
class CallCheck:
    """A call of a candidate with its verdict.

    Attributes:
        written: the call as the model wrote it.
        args: the parsed arguments; None if they are invalid.
        verdict: the verdict; None if the turn was refused for another call before this one was judged.
        repeated: whether the call was refused before.
    """

    written: WrittenCall
    args: Mapping[str, Any] | None = None
    verdict: Verdict | None = None
    repeated: bool = False

    @property
    def arguments(self) -> str:
        return self.written.arguments if self.args is None else canonical_json(self.args)

    @property
    def key(self) -> Key:
        kind = "unread" if self.args is None else "read"
        return kind, self.written.name, self.arguments


@dataclass(frozen=True, slots=True)
class CandidateCheck:
    """A candidate with the verdicts on its calls.

    Attributes:
        attempt: the number of the request that it answers.
        text: the text of the model.
        calls: the calls, in order.
        problem: why the whole answer is unusable; empty if it is usable.
        final: the verdict on a text without calls, if a rule speaks of the final answer.
    """

    attempt: int
    text: str
    calls: tuple[CallCheck, ...]
    problem: str = ""
    final: Verdict | None = None

    @property
    def verdicts(self) -> list[Verdict]:
        if self.problem:
            return [unchecked_verdict(self.problem, checked_by="policy")]
        if self.final is not None:
            return [self.final]
        return [call.verdict for call in self.calls if call.verdict is not None]

    @property
    def worst(self) -> Verdict | None:
        """The most severe verdict; None without a call."""
        return max(self.verdicts, key=lambda verdict: verdict.decision.severity, default=None)


_INTERLEAVED = unchecked_verdict(
    "another call was recorded in the session meanwhile; propose the call again", checked_by="policy"
)


class CandidateChecker:
    """Judges candidates by a session, and remembers refused calls.

    Args:
        tools: the tools that the model may call.
        session: judges the calls, and reserves those that may run.
        options: options of `session.check`.
    """

    def __init__(self, tools: ToolSet, session: Session, options: Mapping[str, Any]) -> None:
        self.session = session
        self._tools = tools
        self._options = options
        self._excluded: dict[tuple[Key, ...], Verdict] = {}  # one call, or all calls of a turn

    def check(self, candidate: ChatCandidate, attempt: int) -> CandidateCheck:
        """Judges a candidate. If it complies, its calls are in flight afterwards, and a final answer is recorded."""
        result = CandidateCheck(attempt, candidate.text, tuple(map(self._read, candidate.calls)), candidate.problem)
        if result.problem or not result.calls:
            return result if result.problem else self._checked_answer(result)
        if not self._refused_before(result.calls) and all(call.verdict is None for call in result.calls):
            self._check_calls(result.calls)
        self._exclude(result.calls)
        return result

    def _checked_answer(self, result: CandidateCheck) -> CandidateCheck:
        if not self.session.policies.judges_answers:
            return result
        return replace(result, final=self.session.answer(result.text, **self._options))

    def _read(self, call: WrittenCall) -> CallCheck:
        if call.problem:
            problem = f"malformed call of {call.name!r}: {call.problem}"
            return CallCheck(call, verdict=unchecked_verdict(problem, checked_by="policy"))
        try:
            return CallCheck(call, self._tools.parse(call.name, call.arguments))
        except InputError as error:
            return CallCheck(call, verdict=unchecked_verdict(str(error), checked_by="policy"))

    def _refused_before(self, calls: Sequence[CallCheck]) -> bool:
        """Whether a call or the whole turn is excluded; then the other calls are not checked."""
        whole = self._excluded.get(tuple(call.key for call in calls))
        for call in calls:
            excluded = self._excluded.get((call.key,)) or whole
            if excluded is not None:
                call.verdict, call.repeated = excluded, True
        return any(call.repeated for call in calls)

    def _check_calls(self, calls: Sequence[CallCheck]) -> None:
        proposed: list[ProposedCall] = [(call.written.name, call.args or {}) for call in calls]
        checked, verdicts = judge_jointly(self.session, proposed, self._options)
        for checked_call, verdict in zip(checked, verdicts, strict=True):
            place = next(at for at, call in enumerate(proposed) if call is checked_call)
            calls[place].verdict = verdict
        if any(call.verdict is None or call.verdict.label for call in calls):
            withdraw(self.session, verdicts)
        if all(verdict.label == 0 for verdict in verdicts):
            for call in calls:
                call.verdict = call.verdict or _INTERLEAVED

    def _exclude(self, calls: Sequence[CallCheck]) -> None:
        """Excludes denied calls: alone if denied alone, else together with the other calls of the turn."""
        for call in calls:
            if call.repeated or call.verdict is None or call.verdict.decision is not Decision.DENY:
                continue
            alone = call.args is None or len(calls) == 1 or self._denied_alone(call.written.name, call.args)
            self._excluded[(call.key,) if alone else tuple(call.key for call in calls)] = call.verdict

    def _denied_alone(self, tool: str, args: Mapping[str, Any]) -> bool:
        return bool(self.session.check(tool, args, **self._options, reserve=False).label)


Outcome = Literal["calls", "text", "refused", "escalated", "halted"]


@dataclass(frozen=True, slots=True)
class ReleasedCall(AllowedCall):
    """An allowed call of a model; see `AllowedCall`.

    Attributes:
        id: the model's id of the call, for the message with its result.
    """

    id: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call, or a whole answer, that was not released.

    Attributes:
        attempt: the number of the request that it answers, from 1.
        tool: the tool; empty if the whole answer is unusable.
        arguments: the arguments as the model wrote them.
        verdict: the verdict with the reasons.
        repeated: whether the same call was refused before, and so not checked again.
    """

    attempt: int
    tool: str
    arguments: str
    verdict: Verdict
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class GuardedTurn:
    """A model's turn, without refused calls.

    Attributes:
        outcome: `calls`: they may run; `text`: text without a call; `refused`: the safe ending, since no attempt
            complied; `escalated`: a call needs human approval; `halted`: the session is halted.
        text: the text of the model or of the safe ending; may be empty.
        calls: the calls that may run. They are in flight: record their outcomes.
        verdict: the deciding verdict; None for a text.
        waiting: the escalated or halting call as (tool, arguments). It may not run.
        refusals: all calls and answers that were not released, in order.
        requests: the number of requests to the model.
        usage: the model usage.
    """

    outcome: Outcome
    text: str = ""
    calls: tuple[ReleasedCall, ...] = ()
    verdict: Verdict | None = None
    waiting: tuple[str, Any] | None = None
    refusals: tuple[Refusal, ...] = ()
    requests: int = 0
    usage: Usage = field(default_factory=Usage)

    @property
    def repeated(self) -> int:
        """The number of calls refused without a check, because the same call was refused before."""
        return sum(refusal.repeated for refusal in self.refusals)

    def message(self) -> dict[str, Any]:
        """The turn as an assistant message for the rest of the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.calls:
            message["tool_calls"] = [as_tool_call(call.id, call.tool, canonical_json(call.args)) for call in self.calls]
        return message


def as_tool_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """A call in the form of the chat completions API."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


Ending = Literal["refusal", "question", "nothing"]
ENDINGS: tuple[Ending, ...] = ("refusal", "question", "nothing")

_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 400
_EXCLUDED = "You proposed exactly this call before, and it was refused. It is excluded; propose something else."


def feedback_messages(check: CandidateCheck) -> list[dict[str, Any]]:
    """The refused turn as messages, with the reasons as the results of its calls."""
    if check.final is not None:
        question = {"role": "user", "content": f"{check.final.feedback()}\nAnswer again."}
        return [{"role": "assistant", "content": check.text}, question]
    if not check.calls:
        return [{"role": "user", "content": f"Your last answer cannot be used: {check.problem}. Answer again."}]
    ids = [f"refused_{check.attempt}_{number}" for number in range(1, len(check.calls) + 1)]
    written = [
        as_tool_call(call_id, _name(call.written.name), call.arguments if call.args is not None else "{}")
        for call_id, call in zip(ids, check.calls, strict=True)
    ]
    several = len(check.calls) > 1
    results = [
        {"role": "tool", "tool_call_id": call_id, "content": _result_text(call, several=several)}
        for call_id, call in zip(ids, check.calls, strict=True)
    ]
    return [{"role": "assistant", "content": check.text or None, "tool_calls": written}, *results]


def ending_text(kind: Ending, verdicts: Sequence[Verdict]) -> str:
    """The text of a turn without a complying attempt."""
    if kind == "nothing":
        return ""
    messages = [violation.message for verdict in verdicts for violation in verdict.violations]
    reason = " ".join(dict.fromkeys(messages)) or "It could not be verified that this is allowed."
    reason = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"
    question = " How should I go on?" if kind == "question" else ""
    return f"I cannot do this. {reason}{question}"


def _result_text(call: CallCheck, *, several: bool) -> str:
    head = "Not run: the calls of one answer run only if all of them are allowed. " if several else "Not run. "
    if call.verdict is None:
        return f"{head}This call was not judged, since another one is refused."
    if not call.verdict.label:
        return f"{head}No rule forbids this call."
    if call.repeated:
        return f"{head}{_EXCLUDED}\n{without_surrogates(denial_message(call.verdict, call=False))}"
    return f"{head}{without_surrogates(denial_message(call.verdict, call=False))}"


def _name(name: str) -> str:
    """Replaces characters that endpoints reject in a tool name: a model may invent any name."""
    return _NAME.sub("_", name)[:64] or "unnamed"


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
    """Runs a guarded chat turn in an event loop; arguments and result are those of `guarded_chat`."""
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
    chat_model: Any = load_model(model) if isinstance(model, str) else model
    if not isinstance(chat_model, ChatModel):
        raise InputError(
            f"model {model_name(chat_model)!r} does not support tools; expected an OpenAI-compatible model"
        )
    return chat_model


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
        self.messages: list[dict[str, Any]] = [_message(place, message) for place, message in enumerate(messages)]
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
