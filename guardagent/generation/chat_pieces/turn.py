"""The result of a guarded chat: a turn with its released and refused calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from guardagent.generation.tool_set import canonical_json
from guardagent.session.replan import AllowedCall
from guardagent.types import Usage, Verdict

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
