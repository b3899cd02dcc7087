"""The kinds of errors that stop a program: those that the paper counts (Appendix K), and those of a sandbox."""

from __future__ import annotations

import re

from guardagent.errors import LimitError, SandboxError

NO_PROGRAM = "no program"
"""The model's answer contains no program."""

_RAISED = re.compile(r"\b([A-Z][A-Za-z]*?)(?:Error|Exception)\b: ")
_CONTRACT = re.compile(r"\b(?:check'? returned|returned a|called no check|a check failed)\b")


def error_kind(error: SandboxError, *, passed_gate: bool) -> str:
    """Returns `name`, `type`, `value` and so on for an exception of a program; otherwise the layer that rejected it.

    Args:
        error: the error that stopped the program.
        passed_gate: whether the program had passed the static gate.

    Returns:
        `syntax` if it is not Python, `gate` if the gate or an engine rejects it, `limit` if it exceeded a limit,
        `contract` for an invalid result, or the kind of the exception in lower case.
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
