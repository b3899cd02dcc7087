"""The runs of agents, the conversation that each belongs to, and messages and results as rules read them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from strands.types._events import ToolResultEvent
from strands.types.exceptions import EventLoopException

from guardagent.enforcement import Outcome
from guardagent.enforcement.host_adapter import plain_or_text
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, ModelRun
from guardagent.errors import ToolDenied
from guardagent.types import Verdict

# --- messages


def chat(messages: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of each message; a tool's results are messages of the role `tool`."""
    shown: list[dict[str, str]] = []
    for message in messages:
        results = _results(message)
        shown += [{"role": "tool", "content": "\n".join(map(_text, result.get("content") or ()))} for result in results]
        if (text := message_text(message)) or not results:
            shown.append({"role": str(message.get("role", "")), "content": text})
    return shown


def message_text(message: Any) -> str:
    """Returns the text of a message, with that of its citations."""
    return "\n".join(_texts(_blocks(message)))


def result_ids(messages: Iterable[Any]) -> list[str]:
    """Returns the ids of the calls whose results are among the messages."""
    ids = [result.get("toolUseId") for message in messages for result in _results(message)]
    return [call_id for call_id in ids if isinstance(call_id, str)]


def tool_uses(message: Any) -> list[dict[str, Any]]:
    """Returns the calls that a message proposes."""
    return [block["toolUse"] for block in _blocks(message) if "toolUse" in block]


def _results(message: Any) -> list[dict[str, Any]]:
    return [block["toolResult"] for block in _blocks(message) if "toolResult" in block]


def _blocks(message: Any) -> list[dict[str, Any]]:
    return [block for block in message.get("content") or () if isinstance(block, dict)]


def _texts(blocks: Iterable[dict[str, Any]]) -> Iterator[str]:
    for block in blocks:
        if "text" in block:
            yield str(block["text"])
        for cited in (block.get("citationsContent") or {}).get("content") or ():
            if isinstance(cited, dict) and "text" in cited:
                yield str(cited["text"])


def _text(part: Any) -> str:
    if isinstance(part, dict) and "text" in part:
        return str(part["text"])
    return json.dumps(part, ensure_ascii=False, default=str)


# --- runs

UNNAMED = (
    "this run names no conversation: run the agent inside 'with conversation(id):', with a session manager, or pass "
    "conversation=..."
)


class StrandsHalted(ToolDenied, EventLoopException):
    """A rule has halted the run: the agent raises this. `verdict` says why.

    As an `EventLoopException`, the host lets it through as it is.
    """

    def __init__(self, tool: str, verdict: Verdict) -> None:
        ToolDenied.__init__(self, tool, verdict)
        self.original_exception, self.request_state = self, dict[str, Any]()


@dataclass(slots=True)
class StrandsRun(ModelRun):
    """One run of an agent.

    Attributes:
        answers: whether its last text is an answer to the user.
    """

    halt_error = StrandsHalted

    answers: bool = True

    def show(self, messages: Sequence[Any], proposed: set[str]) -> None:
        """Takes over the agent's messages.

        Args:
            messages: in the host's form.
            proposed: the ids of the calls that models proposed under this guard, which may have been denied.
        """
        self.messages = chat(messages)
        self.seen = [call_id for call_id in result_ids(messages) if call_id not in proposed]


@dataclass(frozen=True, slots=True)
class StrandsScope(HostScope):
    """The surroundings of a call or a run.

    Attributes:
        delegated: whether the answer of an agent in this call is the answer to the user.
    """

    run: StrandsRun | None = None
    delegated: bool = False


SURROUNDINGS = HostSurroundings("strands", StrandsScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


def run_within(outer: StrandsRun | None) -> StrandsRun:
    """Returns a new run. The answer of an agent to which a call delegates is that of the run around it."""
    around = scope()
    if around is None or around.call is None:
        return StrandsRun()
    run = StrandsRun(outer, answers=around.delegated)
    if around.delegated and outer is not None:
        run.passed = outer.passed
    return run


# --- results

RETURNED = "guardagent_returned"
"""The attribute of a result's event with what the tool's function has returned."""


def outcome_of(event: Any) -> Outcome:
    """Returns a call's outcome from the last event of its tool: the host's result, or a result without an event."""
    result, error = (event.tool_result, event.exception) if isinstance(event, ToolResultEvent) else (event, None)
    if isinstance(error, TimeoutError):
        return Outcome.of_error(error)  # it may have done its work
    returned = getattr(event, RETURNED, result)
    if error is None and not _is_result(returned):
        return Outcome(plain_or_text(returned), failed=None if event is None else False)
    failed = error is not None or result.get("status") != "success"
    parts = [_part(content) for content in result.get("content") or ()]
    others = (parts, *([result["structuredContent"]] if "structuredContent" in result else []))
    unknown = result.get("cancelled") is True  # as MCP has it: its server may go on
    return Outcome(parts[0] if len(parts) == 1 else parts, None if unknown else failed, other_outputs=others)


def _is_result(value: Any) -> bool:
    return isinstance(value, dict) and "status" in value and "content" in value


def _part(content: Any) -> Any:
    """Returns a part of a result: text or JSON as it is, another by its kind."""
    if not isinstance(content, dict):
        return str(content)
    return next((content[kind] for kind in ("text", "json") if kind in content), ", ".join(map(str, content)))
