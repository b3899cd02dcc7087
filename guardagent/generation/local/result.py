"""What came of one guarded turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from guardagent.session.permit import Permit
from guardagent.types import EMPTY, Verdict, thaw

Ended = Literal["end", "length", "gave up"]


@dataclass(frozen=True, slots=True)
class GeneratedCall:
    """A call that may run now. It is in flight: record its outcome. Where nothing judged, it has no verdict.

    Attributes:
        tool: its name.
        args: the arguments that were judged.
        verdict: on the call.
        permit: for `session.record`.
    """

    tool: str
    args: Mapping[str, Any]
    verdict: Verdict | None = None
    permit: Permit | None = None


@dataclass(frozen=True, slots=True)
class GeneratedTurn:
    """One turn of a model.

    Attributes:
        text: what it says, without its calls; where it gave up, with how that is said to the user.
        calls: those that may run, in order.
        ended: `end` of its own accord, at the `length` that was allowed, or it `gave up` finding an allowed call.
        why: in words.
        verdict: the last one on a call that was denied.
        denied: how often a call that was written violated each rule, by its id.
        unchecked: how many calls could not be checked.
        tokens: what the model wrote and was not taken back.
        backtracks: how often something was taken back.
        discarded: how many tokens that took.
        questions: how often it was asked whether a call that was being written can still comply.
        checks: how many whole calls were judged.
    """

    text: str
    calls: tuple[GeneratedCall, ...] = ()
    ended: Ended = "end"
    why: str = ""
    verdict: Verdict | None = None
    denied: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    unchecked: int = 0
    tokens: tuple[int, ...] = ()
    backtracks: int = 0
    discarded: int = 0
    questions: int = 0
    checks: int = 0

    @property
    def message(self) -> dict[str, Any]:
        """The turn as a chat message, for the next prompt."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = [_tool_call(at, call) for at, call in enumerate(self.calls)]
        return message


def _tool_call(at: int, call: GeneratedCall) -> dict[str, Any]:
    function = {"name": call.tool, "arguments": thaw(call.args)}  # chat templates take a mapping, not its text
    return {"type": "function", "id": f"call{at:05}", "function": function}  # Mistral's want nine letters and digits
