"""What comes of asking a model for its next turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from guardagent.generation.chat.tool_set import canonical_json
from guardagent.session.replan import AllowedCall
from guardagent.types import Usage, Verdict

Outcome = Literal["calls", "text", "refused", "escalated", "halted"]


@dataclass(frozen=True, slots=True)
class ReleasedCall(AllowedCall):
    """An allowed call of a model: see `AllowedCall`.

    Attributes:
        id: the model's name for it, for the message with its result.
    """

    id: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call, or a whole answer, that was not released.

    Attributes:
        attempt: the question that it answered, from 1.
        tool: of the call; empty where the whole answer is of no use.
        arguments: as the model wrote them.
        verdict: why it was refused.
        repeated: whether it had been refused before, so that nothing was checked again.
    """

    attempt: int
    tool: str
    arguments: str
    verdict: Verdict
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class GuardedTurn:
    """A model's turn, as far as it may be seen.

    Attributes:
        outcome: `calls` may run; `text`, and no call; `refused`: the safe ending, as nothing complied; `escalated`: a
            call that waits for a person; `halted`: the session is.
        text: the model's, or that of the safe ending; empty where there is none.
        calls: what may run. They are in flight: record their outcomes.
        verdict: the one that decided; None for a text.
        waiting: the call that escalated or halted, with its tool and arguments. It may not run.
        refusals: all that was not released, in order.
        requests: the number of requests to the model.
        usage: what that took.
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
        """How many calls were refused unseen, since the same ones had been refused before."""
        return sum(refusal.repeated for refusal in self.refusals)

    def message(self) -> dict[str, Any]:
        """The turn as a message of the assistant, for the conversation to go on with."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if self.calls:
            message["tool_calls"] = [as_tool_call(call.id, call.tool, canonical_json(call.args)) for call in self.calls]
        return message


def as_tool_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    """A call as the chat completions API writes it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
