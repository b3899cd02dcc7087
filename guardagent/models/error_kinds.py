"""What kind of error stopped a program: those that the paper counts (Appendix K), and those of a sandbox."""

from __future__ import annotations

import re

from guardagent.errors import LimitError, SandboxError

NO_PROGRAM = "no program"
"""The model's answer held none."""

_RAISED = re.compile(r"\b([A-Z][A-Za-z]*?)(?:Error|Exception)\b: ")
_CONTRACT = re.compile(r"\b(?:check returned|returned a|called no check|a check failed)\b")


def error_kind(error: SandboxError, *, passed_gate: bool) -> str:
    """`name`, `type`, `value` and so on for what a program raised; otherwise what refused it.

    Args:
        error: what stopped the program.
        passed_gate: whether the static gate had let it pass before.

    Returns:
        `syntax` where it is no Python, `gate` for what the gate or an engine does not take, `limit` for what it used
        too much of, `contract` for an answer that is none, or the kind of the exception, in small letters.
    """
    text = str(error)
    if not passed_gate:
        return "syntax" if "not Python" in text else "gate"
    if isinstance(error, LimitError):
        return "limit"
    if raised := _RAISED.search(text):
        return raised[1].lower()
    if "not supported by the engine" in text:
        return "gate"
    return "contract" if _CONTRACT.search(text) else "value"
