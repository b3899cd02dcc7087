"""One call, guarded from its proposal to its outcome: for hosts that let an adapter stand around the tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from guardagent._support.procedures import adrive, drive
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.lifecycle import Arguments, ReadOutcome
from guardagent.enforcement.tool_guard import ToolGuard


def run(guard: ToolGuard, call: HostCall, execute: Callable[[Arguments], Any], outcome: ReadOutcome = Outcome) -> Any:
    """Judges a call, runs it with the arguments that were judged, and records what came of it.

    What `execute` raises passes through: an Exception is recorded as a failure, and a call that was interrupted stays
    in flight.

    Args:
        guard: decides.
        call: what is proposed.
        execute: runs the tool.
        outcome: tells what came of it from what `execute` gives back.

    Raises:
        ToolDenied: the call may not run; with the verdict.
    """
    return drive(guard.lifecycle.run(call, execute, outcome))


async def arun(
    guard: ToolGuard, call: HostCall, execute: Callable[[Arguments], Awaitable[Any]], outcome: ReadOutcome = Outcome
) -> Any:
    """As `run`, of a coroutine function."""
    return await adrive(guard.lifecycle.run(call, execute, outcome))
