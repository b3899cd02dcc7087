"""The final text for the user if no allowed call was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from guardagent.errors import InputError
from guardagent.types import Decision, Verdict

Ending = Literal["silence", "refusal", "question"] | Callable[[Verdict | None], str]
_ENDINGS = ("silence", "refusal", "question")


def check_ending(ending: object) -> None:
    """Checks that a value is a valid ending.

    Raises:
        InputError: it is not.
    """
    if not callable(ending) and ending not in _ENDINGS:
        raise InputError(f"'ending' is {ending!r}; expected one of {', '.join(map(repr, _ENDINGS))}, or a function")


def ending_text(ending: Ending, verdict: Verdict | None) -> str:
    """The text of an ending, with the rules' messages on the last denied call.

    Args:
        ending: the kind of ending, or a function of the verdict.
        verdict: the verdict on the last complete call that was denied, if there was one.
    """
    if callable(ending):
        return ending(verdict)
    if ending == "silence":
        return ""
    reason = _reason(verdict)
    if ending == "refusal":
        return " ".join(["I cannot do this.", *reason])
    needs_approval = verdict is not None and verdict.decision is Decision.ESCALATE
    return " ".join(
        ["I cannot do this as it is.", *reason, "May it be done?" if needs_approval else "What shall I do?"]
    )


def _reason(verdict: Verdict | None) -> list[str]:
    """The rules' messages. The evidence is left out: it may hold data that the user must not see."""
    if verdict is None:
        return []
    messages = [violation.message for violation in verdict.violations] or ["It could not be checked."]
    return [*dict.fromkeys(messages)]
