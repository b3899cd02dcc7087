"""Guards one call from its proposal to its outcome, for hosts whose adapter wraps the tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from guardagent._support.execution import adrive, drive
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.enforcement_point import EnforcementPoint
from guardagent.enforcement.lifecycle import Arguments, ReadOutcome


def run(
    guard: EnforcementPoint, call: HostCall, execute: Callable[[Arguments], Any], outcome: ReadOutcome = Outcome
) -> Any:
    """Judges a call, runs it with the judged arguments, and records its outcome.

    Exceptions of `execute` pass through: an Exception is recorded as a failure, and an interrupted call stays in
    flight.

    Args:
        guard: decides on the call.
        call: the proposed call.
        execute: runs the tool.
        outcome: maps the result of `execute` to the call's outcome.

    Raises:
        ToolDenied: the call may not run; carries the verdict.
    """
    return drive(guard.lifecycle.run(call, execute, outcome))


async def arun(
    guard: EnforcementPoint,
    call: HostCall,
    execute: Callable[[Arguments], Awaitable[Any]],
    outcome: ReadOutcome = Outcome,
) -> Any:
    """As `run`, for a coroutine function."""
    return await adrive(guard.lifecycle.run(call, execute, outcome))
