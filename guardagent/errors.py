"""Every error this library raises.

    GuardError
    ├── InputError              something the caller gave is wrong; nothing was checked
    │   ├── ContentError        a toolbox, memory or program file: says file, line and what was expected
    │   ├── UnknownNameError    a name that does not exist: says the nearest that does
    │   └── SessionBusyError    another check of the conversation is under way
    ├── ToolDenied              a call may not run; carries its verdict. Raised only by what had to stop the call
    ├── LogError                the audit log cannot be written; what was to be logged is not acknowledged
    ├── LedgerError             the ledger cannot be read or written; what was to be kept there does not happen
    ├── ModelError              no model is configured, or it did not answer
    │   ├── UnsentError         it was not asked: its key or its URL is missing or wrong
    │   └── AnswerError         it answered, and the answer is of no use: empty, cut off, no plan, no code
    └── SandboxError            a guard program did not run to its end
        ├── ProgramError        it is not valid, raised, or returned something that is no answer
        └── LimitError          it went over its time, memory, call or size limit

A denial is no error: it is a `Verdict`, and `ToolDenied` only carries it. What only the compiler raises stands in its
room: `NotCompiledError`, beside the report that it carries.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from guardagent._terminal import strip_control_characters

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from guardagent.types import Verdict


class GuardError(Exception):
    """The base of all errors raised here; its text is written for the person who can mend the cause."""

    def __init__(self, message: str = "") -> None:
        super().__init__(strip_control_characters(message))


class InputError(GuardError):
    """Something the caller gave is wrong: a file, a value, a combination of options."""


class ContentError(InputError):
    """A content file is wrong. The message begins with `file:line:`."""

    def __init__(self, message: str, path: Path | str, line: int | None = None) -> None:
        place = f"{path}:{line}" if line else f"{path}"
        super().__init__(f"{place}: {message}")


class UnknownNameError(InputError):
    """A name that does not exist; the message says which do, and the nearest one."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        place = f"{where}: " if where else ""
        super().__init__(f"{place}unknown {kind} {name!r}{name_hint(name, known)}")


class SessionBusyError(InputError):
    """Another check of the conversation is under way, and took too long to wait for."""


class ToolDenied(GuardError):  # noqa: N818 - the public contract names it so
    """A call may not run; `verdict` says why, and its text is fit to hand back to the model."""

    def __init__(self, tool: str, verdict: Verdict) -> None:
        super().__init__(verdict.feedback() or f"{tool} may not run")
        self.tool, self.verdict = tool, verdict


class LogError(GuardError):
    """The audit log cannot be written, so that what was to be logged must not be taken as logged."""


class LedgerError(GuardError):
    """The ledger cannot be read or written, so that what was to be kept in it must not happen."""


class ModelError(GuardError):
    """A model is needed and none is configured, or it did not give a usable answer."""


class UnsentError(ModelError):
    """Nothing was asked of a model: it has no key, or none that can be sent, or its URL is none."""


class AnswerError(ModelError):
    """A model answered, and its answer is of no use for what was asked; `usage` is what it took all the same."""

    def __init__(self, message: str, usage: object = None) -> None:
        super().__init__(message)
        self.usage = usage


class SandboxError(GuardError):
    """A guard program did not run to its end."""


class ProgramError(SandboxError):
    """The program is not valid, raised, or returned something that is no answer."""


class LimitError(SandboxError):
    """The program went over one of its limits."""


def name_hint(name: str, known: Iterable[str]) -> str:
    """Says which known name was probably meant, and which there are: the tail of an error message."""
    names = sorted(known)
    if not names:
        return "; none is defined"
    folded = {one.lower(): one for one in names}
    matches = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    hint = f"; did you mean {folded[matches[0]]!r}?" if matches else ";"
    return f"{hint} known: {', '.join(names[:20])}{', …' if len(names) > 20 else ''}"


def error_text(error: BaseException) -> str:
    """The kind of an error and its text, whatever that text does when it is asked for."""
    try:
        return strip_control_characters(f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001 - an error of somebody else's
        return type(error).__name__
