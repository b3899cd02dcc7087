"""A small agent: a model, its tools, and the guard between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from guardagent._support.execution import Operation, Procedure, adrive, drive
from guardagent.enforcement import EnforcementPoint
from guardagent.frameworks.python.adapter.caller_context import ConversationSource, conversation_id
from guardagent.frameworks.python.adapter.messages import as_dict, get_field
from guardagent.frameworks.python.adapter.tool_calls import Tools, arun_tool_calls, run_tool_calls

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
    conversation: ConversationSource = None,
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
    return drive(_steps(ask, messages, tools, guard, conversation_id(conversation), max_turns))


async def arun_agent(
    ask: Callable[[list[dict[str, Any]]], Awaitable[Any]],
    messages: Iterable[Any],
    tools: Tools,
    guard: EnforcementPoint,
    *,
    conversation: ConversationSource = None,
    max_turns: int = MAX_TURNS,
) -> Answer:
    """As `run_agent`, with coroutine functions."""
    return await adrive(_steps(ask, messages, tools, guard, conversation_id(conversation), max_turns))


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
