"""The tool calls of a model's messages, and a small agent: a model, its tools, and the guard between them.

All calls of one message are judged, then they run one after the other. Messages are those of the chat completions API,
as the objects of a client library or as plain dicts.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Literal

from guardagent._support.execution import Operation, Procedure, adrive, combine, drive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome
from guardagent.enforcement.approval import edit_note
from guardagent.enforcement.calls import REPEATS
from guardagent.enforcement.schema import read_object
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import InputError, ToolDenied, ToolTimeoutError, error_text, name_hint
from guardagent.frameworks.python.adapter import functions
from guardagent.types import Decision, Verdict, unchecked_verdict

# --- messages


def get_field(of: Any, name: str) -> Any:
    """Returns a field of a message or of a part of one; None if it is missing."""
    return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)


def as_dict(message: Any) -> dict[str, Any]:
    """Returns a message as a plain dict.

    Raises:
        InputError: it is not a message.
    """
    if isinstance(message, Mapping):
        return dict(message)
    dump = getattr(message, "model_dump", None)
    if not callable(dump):
        raise InputError(f"a message is a {type(message).__name__}; expected a dict, or a message of a client library")
    return dict(dump(exclude_none=True))


class Transcript:
    """The messages of one conversation. Each turn shows all of them, and only the new ones are read.

    Attributes:
        messages: as plain dicts.
        seen: the ids of the calls whose results they show; a new list if the messages are replaced.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._source: list[Any] = []
        self.messages: list[Mapping[str, Any]] = []
        self.seen: list[str] = []

    @classmethod
    def of(cls, guard: EnforcementPoint, conversation: str) -> Transcript:
        """Returns the transcript that the guard keeps for a conversation."""
        try:
            return guard.notes(conversation).setdefault("transcript", cls())  # type: ignore[no-any-return]
        except InputError:  # then its calls are denied, too
            return cls()

    def read(self, messages: Sequence[Any]) -> None:
        """Reads the new messages.

        Raises:
            InputError: one is not a message.
        """
        with self._lock:
            self._read(messages)

    def _read(self, messages: Sequence[Any]) -> None:
        if list(islice(messages, len(self._source))) != self._source:
            self._source, self.messages, self.seen = [], [], []
        for message in islice(messages, len(self._source), None):
            plain = message if type(message) is dict else as_dict(message)
            call_id = plain.get("tool_call_id")
            if plain.get("role") == "tool" and isinstance(call_id, str) and call_id:
                self.seen.append(call_id)
            self.messages.append(plain)
            self._source.append(message)


def call_name(call: Any) -> str:
    """Returns the tool name of a call; "" if it has none."""
    name = get_field(get_field(call, "function"), "name")
    return name if isinstance(name, str) else ""


def call_arguments(call: Any) -> dict[str, Any]:
    """Reads the arguments of a tool call strictly: a duplicate name is refused.

    Raises:
        InputError: the call is not a function call, or its arguments are not a JSON object.
    """
    function = get_field(call, "function")
    if get_field(call, "type") not in (None, "function") or function is None:
        raise InputError(f"a call is of type {get_field(call, 'type')!r}; expected a call of a function")
    text, name = get_field(function, "arguments"), call_name(call)
    if isinstance(text, Mapping):  # some servers read it themselves
        return dict(text)
    if text is not None and not isinstance(text, str):
        raise InputError(f"the arguments of {name!r} are a {type(text).__name__}; expected a JSON object")
    return read_object(text or "", name)


def tool_message(call_id: Any, content: str) -> dict[str, Any]:
    """Builds the message that answers a tool call."""
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def output_text(output: Any) -> str:
    """Returns a tool's output as text for the model."""
    if isinstance(output, str):
        return output
    try:
        return json.dumps(output, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(type(output))


# --- the calls of one message

Tools = Mapping[str, functions.Fn] | Iterable[functions.Fn]
_WHY = "another call of the same message ended the run"
_NOT_RUN = f"not run: {_WHY}"


@dataclass(frozen=True, slots=True)
class ToolTurn:
    """The results of the tool calls of a message.

    Attributes:
        messages: the answer to each call, in their order.
        verdicts: the verdict on each.
        ended: why the run must end: `halted`, or `gave up` after too many replans; else None.
        why: the reason, for the user.
    """

    messages: list[dict[str, Any]]
    verdicts: list[Verdict]
    ended: Literal["halted", "gave up"] | None = None
    why: str = ""


def run_tool_calls(
    tool_calls: Iterable[Any] | None,
    tools: Tools,
    guard: EnforcementPoint,
    *,
    conversation: functions.ConversationSource = None,
    messages: Sequence[Any] | None = None,
    agent: str | None = None,
) -> ToolTurn:
    """Judges the tool calls of a message, runs the allowed ones, and returns the messages that answer them.

    All calls are judged before the first runs, so that each is judged with the earlier ones in flight; they run in the
    order of the message. An Exception of a tool becomes a message for the model; an interruption passes through.

    Args:
        tool_calls: `message.tool_calls`, as objects of a client library or as dicts.
        tools: name -> function, or functions with names, guarded or not: each call is judged once.
        guard: decides.
        conversation: its id, or a function that returns it; by default that of the `with conversation(id):` around.
        messages: the conversation so far, for rules that read it. Its tool results must be known to the guard.
        agent: the agent that proposes the calls.

    Raises:
        InputError: there is no conversation, or a tool is invalid.
    """
    turn = _ToolCallBatch(tools, guard, messages, functions.conversation_id(conversation), agent)
    turn.refuse_coroutines()
    with functions.guarded_call(turn.conversation, agent):
        return drive(turn.steps(tool_calls))


async def arun_tool_calls(
    tool_calls: Iterable[Any] | None,
    tools: Tools,
    guard: EnforcementPoint,
    *,
    conversation: functions.ConversationSource = None,
    messages: Sequence[Any] | None = None,
    agent: str | None = None,
) -> ToolTurn:
    """Runs the calls of one message with coroutine functions.

    Plain functions run in the event loop, or in a thread if the policy limits their time.
    """
    turn = _ToolCallBatch(tools, guard, messages, functions.conversation_id(conversation), agent)
    with functions.guarded_call(turn.conversation, agent):
        return await adrive(turn.steps(tool_calls))


@dataclass(slots=True)
class _ProposedPythonCall:
    """A call of the message, with its verdict and result.

    `raised` is its tool's error, and `inner` the verdict on a denied call that its tool made, as in a sub-agent.
    """

    id: Any
    call: HostCall
    function: functions.GuardedFunction | None = None
    problem: str | None = None
    verdict: Verdict = field(default_factory=lambda: unchecked_verdict("not judged"))
    inner: Verdict | None = None
    content: str = _NOT_RUN
    raised: BaseException | None = None

    def failure(self, error: BaseException) -> Outcome:
        """Notes the tool's error. The model gets an Exception as a message; other errors pass through."""
        self.raised = error
        if isinstance(error, Exception):
            self.content, self.inner = _error_message(error), error.verdict if isinstance(error, ToolDenied) else None
        return Outcome.of_error(error)


class _ToolCallBatch:
    """The calls of one message, and the context that they are judged in."""

    def __init__(
        self, tools: Tools, guard: EnforcementPoint, messages: Any, conversation: str, agent: str | None
    ) -> None:
        self.guard, self.conversation = guard, conversation
        self._functions = _guarded_functions(tools, guard)
        self._options: dict[str, Any] = {"agent": agent or functions.current_agent(), "step": secrets.token_hex(8)}
        if messages is not None:
            transcript = Transcript.of(guard, conversation)
            transcript.read(messages)
            self._options |= {"messages": transcript.messages, "seen": transcript.seen}

    def refuse_coroutines(self) -> None:
        odd = next((function.tool.name for function in self._functions.values() if function.tool.is_async), None)
        if odd is not None:
            raise InputError(f"{odd!r} is a coroutine function; call 'await arun_tool_calls(...)'")

    def steps(self, tool_calls: Iterable[Any] | None) -> Procedure[ToolTurn]:
        proposed = [self._proposed(call) for call in tool_calls or ()]
        for at, proposed_call in enumerate(proposed):
            if any(proposed_call.id and proposed_call.id == other.id for other in proposed[:at]):
                proposed_call.problem = REPEATS
        for proposed_call in proposed:
            yield from self._judge(proposed_call)
        halted = any(proposed_call.verdict.decision is Decision.HALT for proposed_call in proposed)
        yield from self._withdraw(proposed) if halted else self._run_all(proposed)
        return _result(proposed)

    def _proposed(self, call: Any) -> _ProposedPythonCall:
        """Reads a call of the message, with the problem if it cannot be judged."""
        name, call_id = call_name(call), get_field(call, "id")
        about = {**self._options, **({"id": call_id} if isinstance(call_id, str) and call_id else {})}
        function = self._functions.get(name)
        try:
            if function is None:
                raise InputError(f"unknown tool {name!r}{name_hint(name, self._functions)}")  # noqa: TRY301 - one way out
            args = function.tool.read(call_arguments(call))
        except InputError as error:
            return _ProposedPythonCall(call_id, HostCall(name, {}, self.conversation, **about), None, str(error))
        return _ProposedPythonCall(call_id, function.proposed(args, self.conversation, apart={}, **about), function)

    def _judge(self, proposed_call: _ProposedPythonCall) -> Procedure[None]:
        life = self.guard.lifecycle
        if proposed_call.problem is None:
            proposed_call.verdict = yield from life.before(proposed_call.call)
        if proposed_call.problem is not None or proposed_call.verdict.decision is Decision.ESCALATE:
            problem = proposed_call.problem or "it needs human approval, and has none"
            refused = yield from life.refuse(proposed_call.call, problem)
            proposed_call.verdict = (
                refused if proposed_call.problem is not None else combine(proposed_call.verdict, refused)
            )
        proposed_call.content = proposed_call.verdict.feedback() if proposed_call.verdict.label else _NOT_RUN

    def _run_all(self, proposed: Sequence[_ProposedPythonCall]) -> Procedure[None]:
        waiting = [proposed_call for proposed_call in proposed if proposed_call.verdict.label == 0]
        try:
            while waiting:
                next_call = waiting.pop(0)
                yield from self._run(next_call)
                if next_call.inner is not None and next_call.inner.decision is Decision.HALT:
                    break
        finally:
            for next_call in waiting:
                self.guard.withdraw(next_call.call, _WHY)

    def _run(self, proposed_call: _ProposedPythonCall) -> Procedure[None]:
        life, function = self.guard.lifecycle, proposed_call.function
        assert function is not None
        try:
            args = yield from life.use(proposed_call.call)
        except InputError as error:
            proposed_call.content = f"This is not allowed: {error}"
            return
        is_timed = life.timeout(proposed_call.call) is not None
        work = Operation(partial(function.run, args), partial(function.arun, args, in_thread=is_timed))
        try:
            output = yield from life.execute(proposed_call.call, work, function.outcome, proposed_call.failure)
        except (ToolDenied, ToolTimeoutError) as error:  # by the limit of its time
            proposed_call.content = str(error)
        except Exception as error:
            if error is not proposed_call.raised:
                raise  # it is none of the tool's
        else:
            proposed_call.content = output_text(output)
        if note := edit_note(proposed_call.call, args):
            proposed_call.content = f"{proposed_call.content}\n{note}"

    def _withdraw(self, proposed: Sequence[_ProposedPythonCall]) -> Procedure[None]:
        """Withdraws the allowed calls of a message that halts the run."""
        for proposed_call in proposed:
            if proposed_call.verdict.label == 0:
                yield from self.guard.lifecycle.withdraw(proposed_call.call, _WHY)


def _guarded_functions(tools: Tools, guard: EnforcementPoint) -> dict[str, functions.GuardedFunction]:
    """Returns the tools by name. A function that is not guarded yet is attached."""
    if isinstance(tools, Mapping):
        function = {
            name: functions.guarded_function(fn, guard) or functions.GuardedFunction(guard, functions.tool_of(fn, name))
            for name, fn in tools.items()
        }
    else:
        function = {}
        for fn in tools:
            guarded = functions.guarded_function(fn, guard) or functions.GuardedFunction(guard, functions.tool_of(fn))
            if guarded.tool.name in function:
                raise InputError(f"two tools are named {guarded.tool.name!r}; expected unique names")
            function[guarded.tool.name] = guarded
    functions.add(guard, [guarded.tool for guarded in function.values()])
    functions.ensure_attached(guard)
    return function


def _result(proposed: Sequence[_ProposedPythonCall]) -> ToolTurn:
    messages = [tool_message(proposed_call.id, proposed_call.content) for proposed_call in proposed]
    verdicts = [proposed_call.verdict for proposed_call in proposed]
    every = [*verdicts, *(proposed_call.inner for proposed_call in proposed if proposed_call.inner is not None)]
    for verdict in every:
        if verdict.decision is Decision.HALT:
            return ToolTurn(messages, verdicts, "halted", "; ".join(verdict.reasons))
    last = next((verdict for verdict in every if gave_up(verdict)), None)
    if last is not None:
        return ToolTurn(messages, verdicts, "gave up", "; ".join(last.reasons))
    return ToolTurn(messages, verdicts)


def _error_message(error: Exception) -> str:
    return str(error) if isinstance(error, ToolDenied) else f"Error: {error_text(error)}"


# --- a small agent

Ask = Callable[[list[dict[str, Any]]], Any]
MAX_TURNS = 25


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of an agent's run.

    Attributes:
        text: the answer, or the reason why there is none.
        messages: the conversation, for the next run.
        ended: why there is no answer: `halted`, `gave up`, `denied` (the answer itself) or `too many turns`.
    """

    text: str
    messages: list[dict[str, Any]]
    ended: str | None = None


def run_agent(
    ask: Ask,
    messages: Iterable[Any],
    tools: Tools,
    guard: EnforcementPoint,
    *,
    conversation: functions.ConversationSource = None,
    max_turns: int = MAX_TURNS,
) -> Answer:
    """Calls a model and runs its tool calls until it answers, or the guard ends the run.

    Args:
        ask: returns the model's next message for the conversation so far.
        messages: the conversation, up to the user's last message.
        tools: see `run_tool_calls`.
        guard: decides.
        conversation: see `run_tool_calls`.
        max_turns: the maximum number of model calls.

    Raises:
        InputError: as `run_tool_calls`.
    """
    return drive(_steps(ask, messages, tools, guard, functions.conversation_id(conversation), max_turns))


async def arun_agent(
    ask: Callable[[list[dict[str, Any]]], Awaitable[Any]],
    messages: Iterable[Any],
    tools: Tools,
    guard: EnforcementPoint,
    *,
    conversation: functions.ConversationSource = None,
    max_turns: int = MAX_TURNS,
) -> Answer:
    """Runs an agent with coroutine functions, until it answers."""
    return await adrive(_steps(ask, messages, tools, guard, functions.conversation_id(conversation), max_turns))


def _steps(
    ask: Ask, messages: Iterable[Any], tools: Tools, guard: EnforcementPoint, name: str, turns: int
) -> Procedure[Answer]:
    transcript = [as_dict(message) for message in messages]
    question = next((message.get("content") for message in reversed(transcript) if message.get("role") == "user"), "")
    guard.turn(name)
    for _ in range(turns):
        message = yield Operation(partial(ask, transcript), partial(ask, transcript))
        transcript.append(as_dict(message))
        if not (calls := get_field(message, "tool_calls")):
            return (
                yield from _final_answer(
                    guard, name, str(question), str(get_field(message, "content") or ""), transcript
                )
            )
        run: dict[str, Any] = {"conversation": name, "messages": transcript}
        turn = yield Operation(
            partial(run_tool_calls, calls, tools, guard, **run), partial(arun_tool_calls, calls, tools, guard, **run)
        )
        transcript += turn.messages
        if turn.ended:
            return Answer(turn.why, transcript, turn.ended)
    return Answer(f"no answer after {turns} turns", transcript, "too many turns")


def _final_answer(
    guard: EnforcementPoint, name: str, question: str, text: str, transcript: list[dict[str, Any]]
) -> Procedure[Answer]:
    """The answer, unless the guard of final answers denies it."""
    about = (name, question, text)
    verdict = yield Operation(partial(guard.answer, *about), partial(guard.aanswer, *about))
    if verdict.label == 0:
        return Answer(text, transcript)
    feedback = verdict.feedback()
    return Answer(feedback, [*transcript[:-1], {"role": "assistant", "content": feedback}], "denied")
