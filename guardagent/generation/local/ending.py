"""What the user is told where no call came that may be made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from guardagent.errors import InputError
from guardagent.types import Decision, Verdict

Ending = Literal["silence", "refusal", "question"] | Callable[[Verdict | None], str]
_ENDINGS = ("silence", "refusal", "question")


def check_ending(ending: object) -> None:
    """Refuses what is no ending.

    Raises:
        InputError: it is none.
    """
    if not callable(ending) and ending not in _ENDINGS:
        raise InputError(f"ending is {ending!r}; expected one of {', '.join(map(repr, _ENDINGS))}, or a function")


def ending_text(ending: Ending, verdict: Verdict | None) -> str:
    """The text of an ending: why the last call was denied, and what rules say that would mend it.

    Args:
        ending: which one; a function of the caller's gets the verdict.
        verdict: on the last call that was denied, where a whole one was.
    """
    if callable(ending):
        return ending(verdict)
    if ending == "silence":
        return ""
    reason = _reason(verdict)
    if ending == "refusal":
        return " ".join(["I cannot do this.", *reason])
    is_for_a_person = verdict is not None and verdict.decision is Decision.ESCALATE
    return " ".join(
        ["I cannot do this as it is.", *reason, "May it be done?" if is_for_a_person else "What shall I do?"]
    )


def _reason(verdict: Verdict | None) -> list[str]:
    """The rules' messages: evidence can hold what the user must not see, and stays out."""
    if verdict is None:
        return []
    messages = [violation.message for violation in verdict.violations] or ["It could not be checked."]
    return [*dict.fromkeys(messages)]
