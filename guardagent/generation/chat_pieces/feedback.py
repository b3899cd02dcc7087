"""Feedback to the model on a refused turn, and the final text for the user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from guardagent.generation.chat_pieces.candidate_check import CallCheck, CandidateCheck
from guardagent.generation.chat_pieces.turn import as_tool_call
from guardagent.types import Verdict
from guardagent.types.verdicts import denial_message

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
        return f"{head}{_EXCLUDED}\n{_clean(denial_message(call.verdict, call=False))}"
    return f"{head}{_clean(denial_message(call.verdict, call=False))}"


def _name(name: str) -> str:
    """Replaces characters that endpoints reject in a tool name: a model may invent any name."""
    return _NAME.sub("_", name)[:64] or "unnamed"


def _clean(text: str) -> str:
    """Replaces lone surrogates, which cannot be sent."""
    return text.encode("utf-8", "replace").decode()
