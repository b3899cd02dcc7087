"""Helpers of the guard's tests: guards of a few rules, calls, and a log that can fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardagent.enforcement import Approval, HostCall, Outcome, ToolGuard
from guardagent.policy.load import compile_rules

LIMIT = "forall(refund(amount=a), a <= 100)"
ONCE = "forall(refund(order=o), count(f:refund(order=o)) == 0)"
STOPPED = f"{ONCE[:-1]} && state.open == true)"
AUTHENTICATED = "G(tool:refund -> O tool:authenticate)"


def guard(*rules: str, **options: Any) -> ToolGuard:
    return ToolGuard(compile_rules(rules), **options)


def refund(amount: Any = 50, conversation: Any = "c", **more: Any) -> HostCall:
    return HostCall("refund", {"amount": amount, "order": "W1"}, conversation, **more)


def ran(tool_guard: ToolGuard, call: HostCall, output: Any = "done", **more: Any) -> None:
    """Runs an allowed call to its end."""
    assert tool_guard.before(call).label == 0
    done(tool_guard, call, output, **more)


def done(tool_guard: ToolGuard, call: HostCall, output: Any = "done", **more: Any) -> None:
    """Uses the permit of a call and records its outcome."""
    tool_guard.use(call)
    tool_guard.after(call, Outcome(output, **more))


def yes(call: HostCall) -> Approval:
    """Returns a reviewer's approval of this call."""
    return Approval("approve", of=call.digest)


class MemoryLog:
    """A log in memory that raises the error that a test sets."""

    def __init__(self) -> None:
        self.records: list[Mapping[str, Any]] = []
        self.error: Exception | None = None

    def append(self, record: Mapping[str, Any]) -> int:
        if self.error is not None:
            raise self.error
        self.records.append(record)
        return len(self.records)

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [record for record in self.records if record["kind"] == kind]
