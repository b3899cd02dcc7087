"""The result of guarded decoding: one turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from guardagent.session.permit import Permit
from guardagent.types import EMPTY, Verdict, thaw

Ended = Literal["end", "length", "gave up"]


@dataclass(frozen=True, slots=True)
class GeneratedCall:
    """A call that may run. It is in flight: record its outcome.

    Attributes:
        tool: the name of the tool.
        args: the judged arguments.
        verdict: the verdict; None without a session.
        permit: the permit for `session.record`.
    """

    tool: str
    args: Mapping[str, Any]
    verdict: Verdict | None = None
    permit: Permit | None = None


@dataclass(frozen=True, slots=True)
class GeneratedTurn:
    """One turn of a model.

    Attributes:
        text: the text without calls; after giving up, including the ending for the user.
        calls: the calls that may run, in order.
        ended: `end` if the model ended the turn, `length` at the token limit, or `gave up` without an allowed call.
        why: the reason, in natural language.
        verdict: the verdict on the last denied call.
        denied: rule id -> the number of generated calls that violated it.
        unchecked: the number of calls that could not be checked.
        tokens: the generated tokens, without discarded ones.
        backtracks: the number of backtracks.
        discarded: the number of discarded tokens.
        questions: the number of queries whether a partial call can still comply.
        checks: the number of complete calls judged.
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
    function = {"name": call.tool, "arguments": thaw(call.args)}  # chat templates expect a mapping, not JSON text
    return {
        "type": "function",
        "id": f"call{at:05}",
        "function": function,
    }  # Mistral's templates require nine letters and digits
