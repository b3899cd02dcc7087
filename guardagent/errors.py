"""Every error this library raises.

    GuardError
    ├── InputError              the caller's input is wrong; nothing was checked
    │   ├── ContentError        a toolbox, memory or program file is wrong: names file, line and expectation
    │   ├── UnknownNameError    a name does not exist: suggests the nearest that does
    │   └── SessionBusyError    another check of the conversation is under way
    ├── ToolDenied              a call may not run; carries its verdict. Raised only to stop the call
    ├── ToolTimeoutError        a tool ran longer than the policy lets it, and was cancelled
    ├── LogError                the audit log cannot be written; the record is not acknowledged
    ├── LedgerError             the ledger cannot be read or written; the action does not happen
    ├── CounterError            the counters cannot be read or written; the call does not run
    ├── RemoteError             a guard's server gave no usable answer; the call is denied
    ├── StateError              a server's state cannot be read or written; the request is refused
    ├── AccessError             it cannot be determined who the caller is; the request is refused
    │   ├── UnauthenticatedError    the request has no valid token
    │   └── ForbiddenError          the caller may not do this
    ├── ModelError              no model is configured, or it did not answer
    │   ├── UnsentError         the request was not sent: the key or the URL is missing or invalid
    │   └── AnswerError         the answer is unusable: empty, no plan, no code
    │       └── CutAnswerError      it reached its token limit before its end
    └── SandboxError            a guard program did not run to its end
        ├── ProgramError        the program is invalid, raised, or returned an invalid result
        └── LimitError          the program exceeded its time, memory, call or size limit

A denial is not an error: it is a `Verdict`, and `ToolDenied` only carries it. `NotCompiledError`, which only the
compiler raises, is defined beside the report that it carries.
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
    """The base of all errors raised here; its message addresses the person who can fix the cause."""

    def __init__(self, message: str = "") -> None:
        super().__init__(strip_control_characters(message))


class InputError(GuardError):
    """The caller's input is wrong: a file, a value, or a combination of options."""


class ContentError(InputError):
    """A content file is wrong. The message begins with `file:line:`."""

    def __init__(self, message: str, path: Path | str, line: int | None = None) -> None:
        place = f"{path}:{line}" if line else f"{path}"
        super().__init__(f"{place}: {message}")


class UnknownNameError(InputError):
    """A name does not exist; the message suggests the nearest one and lists those that do."""

    def __init__(self, kind: str, name: str, known: Iterable[str], where: str = "") -> None:
        place = f"{where}: " if where else ""
        super().__init__(f"{place}unknown {kind} {name!r}{name_hint(name, known)}")


class SessionBusyError(InputError):
    """Another check of the conversation is under way and did not end within the time limit."""


class ToolDenied(GuardError):  # noqa: N818 - the public contract names it so
    """A call may not run; `verdict` has the reasons, and the message is safe to return to the model."""

    def __init__(self, tool: str, verdict: Verdict) -> None:
        super().__init__(verdict.feedback() or f"the tool {tool!r} may not run")
        self.tool, self.verdict = tool, verdict


class ToolTimeoutError(GuardError, TimeoutError):
    """A tool ran longer than the policy lets it, and was cancelled. What it has done is unknown."""

    def __init__(self, tool: str, seconds: float) -> None:
        limit = f"after {seconds:g} s, the timeout of the policy"
        super().__init__(f"the tool {tool!r} was cancelled {limit}; its effect is unknown")


class LogError(GuardError):
    """The audit log cannot be written, so the record is not acknowledged."""


class LedgerError(GuardError):
    """The ledger cannot be read or written, so the action that it should record does not happen."""


class CounterError(GuardError):
    """The counters cannot be read or written, so the call that they should count does not run."""


class RemoteError(GuardError):
    """A guard's server gave no usable answer, so the call is denied.

    Attributes:
        status: the HTTP status of the answer; None without one.
        retried: whether the same request may be sent again.
        retry_after: the seconds to wait before that; None if the server names none.
        uncertain: whether the server may have acted on the request.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retried: bool = False,
        retry_after: float | None = None,
        uncertain: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.retried, self.retry_after, self.uncertain = status, retried, retry_after, uncertain


class StateError(GuardError):
    """The state of a server cannot be read or written, so the request is refused."""


class AccessError(GuardError):
    """The tokens or keys of callers cannot be read, so the request is refused."""


class UnauthenticatedError(AccessError):
    """The request has no valid token; the message does not tell an attacker more than that."""


class ForbiddenError(AccessError):
    """The caller is known, and may not do this."""


class ModelError(GuardError):
    """A model is needed and none is configured, or it gave no usable answer."""


class UnsentError(ModelError):
    """The request was not sent to a model: its key or its URL is missing or invalid."""


class AnswerError(ModelError):
    """A model's answer is unusable; `usage` is the usage that it still cost."""

    def __init__(self, message: str, usage: object = None) -> None:
        super().__init__(message)
        self.usage = usage


class CutAnswerError(AnswerError):
    """A model's answer reached its token limit before its end."""


class SandboxError(GuardError):
    """A guard program did not run to its end."""


class ProgramError(SandboxError):
    """The program is invalid, raised, or returned an invalid result."""


class LimitError(SandboxError):
    """The program exceeded one of its limits."""


_ELSEWHERE = {
    **dict.fromkeys(("rules", "rule_set"), "policies"),
    **dict.fromkeys(("rule", "formula", "ltl", "when", "check"), "temporal"),
    **dict.fromkeys(("deny", "reject", "forbid", "stop", "refuse", "error"), "block"),
    **dict.fromkeys(("ask", "approve", "approval", "confirm", "review", "human"), "escalate"),
    **dict.fromkeys(("abort", "terminate", "kill"), "halt"),
    **dict.fromkeys(("log", "audit", "notify", "info"), "warn"),
    **dict.fromkeys(("description", "reason", "text"), "message"),
    **dict.fromkeys(("action", "effect", "severity", "on_fail", "enforcement"), "on_violation"),
    "name": "id",
}
"""Words for the same things in other policy languages."""


def name_hint(name: str, known: Iterable[str]) -> str:
    """Returns the tail of an error message: the known name that was probably meant, and the known names."""
    names = sorted(known)
    if not names:
        return "; none is defined"
    folded = {name.lower(): name for name in names}
    if _ELSEWHERE.get(name.lower()) in names:
        return f"; did you mean {_ELSEWHERE[name.lower()]!r}? known: {', '.join(names[:20])}"
    matches = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    hint = f"; did you mean {folded[matches[0]]!r}?" if matches else ";"
    return f"{hint} known: {', '.join(names[:20])}{', …' if len(names) > 20 else ''}"


def error_text(error: BaseException) -> str:
    """Returns the type and message of an error, even if the error's own `__str__` fails."""
    try:
        return strip_control_characters(f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001 - the error class is external code
        return type(error).__name__
