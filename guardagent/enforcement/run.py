"""One call, guarded from its proposal to its outcome: for hosts that let an adapter stand around the tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Verdict, unchecked

if TYPE_CHECKING:
    from guardagent.enforcement.tool_guard import ToolGuard

Arguments = Mapping[str, Any]
ReadOutcome = Callable[[Any], Outcome]


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
    _refuse(call, guard.before(call))
    try:
        args = guard.use(call)
    except InputError as error:
        raise _void(call, error) from None
    try:
        output = execute(args)
    except BaseException as error:
        guard.after(call, Outcome.of_error(error))
        raise
    guard.after(call, outcome(output))
    return output


async def arun(
    guard: ToolGuard, call: HostCall, execute: Callable[[Arguments], Awaitable[Any]], outcome: ReadOutcome = Outcome
) -> Any:
    """As `run`, of a coroutine function."""
    _refuse(call, await guard.abefore(call))
    try:
        args = await guard.ause(call)
    except InputError as error:
        raise _void(call, error) from None
    try:
        output = await execute(args)
    except Exception as error:
        await guard.aafter(call, Outcome.of_error(error))
        raise
    except BaseException as error:
        guard.after(call, Outcome.of_error(error))  # not awaited: the task is cancelled
        raise
    await guard.aafter(call, outcome(output))
    return output


def _refuse(call: HostCall, verdict: Verdict) -> None:
    if verdict.label:
        raise ToolDenied(call.tool, verdict)


def _void(call: HostCall, error: InputError) -> ToolDenied:
    return ToolDenied(call.tool, unchecked(str(error), checked_by="policy"))
