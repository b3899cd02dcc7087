"""One guarded call from its proposal to its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from guardagent import ToolDenied
from guardagent.enforcement import Outcome, arun, run
from tests.enforcement.guards import LIMIT, guard, refund


def test_a_call_runs_with_the_judged_arguments_and_is_recorded() -> None:
    """The outcome is determined from the tool's output."""
    one = guard(LIMIT)
    got: list[Mapping[str, Any]] = []

    def execute(args: Mapping[str, Any]) -> str:
        got.append(args)
        return "Error"

    assert run(one, refund(), execute, lambda reply: Outcome(reply, failed=reply == "Error")) == "Error"
    assert got == [{"amount": 50, "order": "W1"}]
    assert one.session("c").history[0].status == "failed"


def test_a_denied_call_does_not_run() -> None:
    """`run` and `arun` raise the verdict."""
    one = guard(LIMIT)

    async def aexecute(args: Mapping[str, Any]) -> None:
        raise AssertionError

    def execute(args: Mapping[str, Any]) -> None:
        raise AssertionError

    with pytest.raises(ToolDenied) as denied:
        run(one, refund(500), execute)
    assert denied.value.verdict.rules == ("rule 1",)
    with pytest.raises(ToolDenied):
        asyncio.run(arun(one, refund(500), aexecute))


def test_exceptions_of_tools_pass_through() -> None:
    """The call is recorded as failed."""
    one = guard(LIMIT)

    async def fails(args: Mapping[str, Any]) -> None:
        raise ConnectionError("no")

    with pytest.raises(ConnectionError):
        asyncio.run(arun(one, refund(), fails))
    assert [(event.status, event.output) for event in one.session("c").history] == [("failed", "ConnectionError: no")]


def test_a_tool_may_raise_stop_iteration() -> None:
    """A StopIteration passes through, and the call is recorded as failed."""
    one = guard(LIMIT)
    with pytest.raises(StopIteration):
        run(one, refund(), lambda _: next(iter(())))
    assert [event.status for event in one.session("c").history] == ["failed"]


def test_a_cancelled_call_stays_in_flight() -> None:
    """It may have taken effect."""
    one = guard(LIMIT)

    async def main() -> None:
        started = asyncio.Event()

        async def waits(args: Mapping[str, Any]) -> None:
            started.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(arun(one, refund(), waits))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert one.session("c").history[0].status is None
