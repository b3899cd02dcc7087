"""The runs of agents and teams, the conversation that each belongs to, and results and messages as rules read them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import (
    BaseChatMessage,
    CodeGenerationEvent,
    HandoffMessage,
    SelectorEvent,
    StructuredMessage,
    ThoughtEvent,
)
from autogen_core.code_executor import CodeResult
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, SystemMessage
from autogen_core.tools import ImageResultContent, ToolResult

from guardagent.enforcement import HostCall, Outcome
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.host_adapter import answer_text
from guardagent.enforcement.host_runs import HostRun, HostScope, HostSurroundings
from guardagent.errors import InputError, ToolDenied

# --- runs

UNNAMED = "this run names no conversation: run the agent inside 'with conversation(id):', or pass conversation=..."


class TeamHalted(ToolDenied):
    """A rule has halted the run of an agent or a team: the run raises this. `verdict` says why."""


@dataclass(slots=True)
class AutoGenRun(HostRun):
    """One run that a program or a tool has started; the agents of a team share the team's.

    Attributes:
        call: the call of the tool that has started it.
    """

    halt_error = TeamHalted

    call: HostCall | None = None


@dataclass(slots=True)
class AutoGenTurn:
    """An agent's part of a run: from the messages that it gets to its response.

    Attributes:
        agent: its name.
        proposed: the ids of the calls that models have proposed in this conversation.
        step: the number of the model's messages.
        messages: the messages that the model has read, as rules read them.
        seen: the ids of the calls whose results are among these, and that no model has proposed here.
        handoffs: the id of the first hand-off of each message, by its number.
    """

    agent: str
    proposed: set[str]
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    step: int = 0
    messages: Sequence[dict[str, str]] = ()
    seen: Sequence[str] = ()
    handoffs: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AutoGenScope(HostScope):
    """The surroundings of a call or a run.

    Attributes:
        turn: the agent's part of the run; None outside of an agent.
    """

    run: AutoGenRun | None = None
    turn: AutoGenTurn | None = None

    @property
    def inside(self) -> bool:
        return self.run is not None or self.call is not None


SURROUNDINGS = HostSurroundings("autogen", AutoGenScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


# --- results


def outcome_of(value: Any, as_string: Callable[[Any], str]) -> Outcome:
    """Returns a call's outcome from what its tool has returned.

    Args:
        value: a value, or the result of an agent's or a team's run.
        as_string: the form that the model reads.
    """
    try:
        text = as_string(value)
    except Exception:  # noqa: BLE001 - the tool's own code; the host will show its error
        text = str(value)
    if isinstance(value, TaskResult):
        return Outcome(text)
    try:
        return Outcome(plain_value(value), other_outputs=(text,))
    except InputError:
        return Outcome(text)


def outcome_of_result(result: ToolResult) -> Outcome:
    """Returns a call's outcome from the result of a workbench."""
    parts = ["[image]" if isinstance(part, ImageResultContent) else part.content for part in result.result]
    return Outcome("\n".join(parts), failed=result.is_error, other_outputs=(parts,))


def outcome_of_code(result: CodeResult) -> Outcome:
    """Returns the outcome of executed code: an exit code other than 0 is a failure."""
    return Outcome(result.output, failed=result.exit_code != 0)


# --- messages

_SPOKEN = (BaseChatMessage, CodeGenerationEvent, SelectorEvent, ThoughtEvent)


def chat(messages: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message of a model's context."""
    return [{"role": _role(message), "content": _content(message)} for message in messages]


def result_ids(messages: Iterable[Any]) -> list[str]:
    """Returns the ids of the calls whose results are among the messages."""
    contents = [message.content for message in messages if isinstance(message, FunctionExecutionResultMessage)]
    return [result.call_id for results in contents for result in results]


def spoken_text(event: Any) -> str | None:
    """Returns what a message or an event tells the user in the words of a model; None for other events."""
    if not isinstance(event, _SPOKEN):
        return None
    parts = [event.to_text()]
    if isinstance(event, StructuredMessage):
        parts.append(answer_text(event.content))
    if isinstance(event, HandoffMessage):
        parts += [context_message["content"] for context_message in chat(event.context)]
    return "\n".join(parts)


def _role(message: Any) -> str:
    if isinstance(message, AssistantMessage):
        return "assistant"
    if isinstance(message, FunctionExecutionResultMessage):
        return "tool"
    return "system" if isinstance(message, SystemMessage) else "user"


def _content(message: Any) -> str:
    if isinstance(message.content, str):
        return message.content
    if isinstance(message, FunctionExecutionResultMessage):
        return "\n".join(part.content for part in message.content)
    return "\n".join(part for part in message.content if isinstance(part, str))
