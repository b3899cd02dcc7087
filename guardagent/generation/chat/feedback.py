"""What a model is told of a turn of its own that was refused, and what the user is told in the end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from guardagent.generation.chat.candidate_check import CallCheck, CandidateCheck
from guardagent.generation.chat.turn import as_tool_call
from guardagent.types import Verdict
from guardagent.types.denial_message import denial_message

Ending = Literal["refusal", "question", "nothing"]
ENDINGS: tuple[Ending, ...] = ("refusal", "question", "nothing")

_NAME = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 400
_EXCLUDED = "You proposed exactly this call before, and it was refused: it is excluded. Propose something else."


def feedback_messages(check: CandidateCheck) -> list[dict[str, Any]]:
    """The refused turn, and the reasons in place of the results of its calls."""
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
    """What stands in place of the calls that no attempt got right."""
    if kind == "nothing":
        return ""
    messages = [violation.message for verdict in verdicts for violation in verdict.violations]
    reason = " ".join(dict.fromkeys(messages)) or "It could not be made sure that this is allowed."
    reason = reason if len(reason) <= _LONGEST else f"{reason[:_LONGEST]}…"
    question = " How should I go on?" if kind == "question" else ""
    return f"I cannot do this. {reason}{question}"


def _result_text(call: CallCheck, *, several: bool) -> str:
    head = "Not run: none of the calls of one answer is made unless all are allowed. " if several else "Not run. "
    if call.verdict is None:
        return f"{head}This one was not judged, as another one is refused."
    if not call.verdict.label:
        return f"{head}Nothing stands against this one."
    if call.repeated:
        return f"{head}{_EXCLUDED}\n{_clean(denial_message(call.verdict, call=False))}"
    return f"{head}{_clean(denial_message(call.verdict, call=False))}"


def _name(name: str) -> str:
    """A name that an endpoint takes: what a model made up may be anything."""
    return _NAME.sub("_", name)[:64] or "unnamed"


def _clean(text: str) -> str:
    """A text that can be sent: half a character cannot."""
    return text.encode("utf-8", "replace").decode()
