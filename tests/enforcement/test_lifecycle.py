"""The life of a call from its proposal to its outcome: a guard of this process and one that asks a server agree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from guardagent import InputError, RemoteGuard, ToolDenied
from guardagent.enforcement import HostCall, Outcome, ToolGuard, arun, run
from tests.enforcement.guards import LIMIT, guard, refund
from tests.enforcement.remote.scripted_server import TOKEN, ScriptedServer, scripted_server


@dataclass(frozen=True)
class GuardUnderTest:
    """A guard that denies refunds above 100.

    Attributes:
        guard: the guard.
        rule: the id of its rule.
        outcomes: gives the (status, output) of each call that may run; the status of one in flight is None.
    """

    guard: ToolGuard | RemoteGuard
    rule: str
    outcomes: Callable[[], list[tuple[str | None, Any]]]


@pytest.fixture(params=["local", "remote"])
def tested(request: pytest.FixtureRequest) -> Iterator[GuardUnderTest]:
    if request.param == "local":
        local = guard(LIMIT)
        yield GuardUnderTest(
            local, "rule 1", lambda: [(event.status, event.output) for event in local.session("c").history]
        )
    else:
        with scripted_server() as server, RemoteGuard(server.url, token=TOKEN, timeout=2.0) as remote:
            yield GuardUnderTest(remote, "limit", lambda: recorded(server))


def recorded(server: ScriptedServer) -> list[tuple[str | None, Any]]:
    names = {False: "ok", True: "failed", None: "unknown"}
    ended = [(names[row["failed"]] if row["ended"] else None, row["output"]) for row in server.recorded.values()]
    return ended + [(None, None)] * len(server.in_flight)


def test_a_call_runs_with_the_judged_arguments_and_is_recorded(tested: GuardUnderTest) -> None:
    """The outcome is determined from the tool's output."""
    got: list[Mapping[str, Any]] = []

    def execute(args: Mapping[str, Any]) -> str:
        got.append(args)
        return "Error"

    assert run(tested.guard, refund(), execute, lambda reply: Outcome(reply, failed=reply == "Error")) == "Error"
    assert got == [{"amount": 50, "order": "W1"}]
    assert tested.outcomes() == [("failed", "Error")]


def test_a_denied_call_does_not_run(tested: GuardUnderTest) -> None:
    """`run` and `arun` raise the verdict, whose text names the call and the rule."""

    async def aexecute(args: Mapping[str, Any]) -> None:
        raise AssertionError

    def execute(args: Mapping[str, Any]) -> None:
        raise AssertionError

    with pytest.raises(ToolDenied, match=rf"refund\(amount=500.*\)\n- {tested.rule}: ") as denied:
        run(tested.guard, refund(500), execute)
    assert denied.value.verdict.rules == (tested.rule,)
    with pytest.raises(ToolDenied):
        asyncio.run(arun(tested.guard, refund(500), aexecute))


def test_exceptions_of_tools_pass_through(tested: GuardUnderTest) -> None:
    """The call is recorded as failed."""

    async def fails(args: Mapping[str, Any]) -> None:
        raise ConnectionError("no")

    with pytest.raises(ConnectionError):
        asyncio.run(arun(tested.guard, refund(), fails))
    assert tested.outcomes() == [("failed", "ConnectionError: no")]


def test_a_tool_may_raise_stop_iteration(tested: GuardUnderTest) -> None:
    """A StopIteration passes through, and the call is recorded as failed."""
    with pytest.raises(StopIteration):
        run(tested.guard, refund(), lambda _: next(iter(())))
    assert [status for status, _ in tested.outcomes()] == ["failed"]


def test_a_cancelled_call_stays_in_flight(tested: GuardUnderTest) -> None:
    """It may have taken effect."""

    async def main() -> None:
        started = asyncio.Event()

        async def waits(args: Mapping[str, Any]) -> None:
            started.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(arun(tested.guard, refund(), waits))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert [status for status, _ in tested.outcomes()] == [None]


def test_a_permit_is_for_one_use_of_the_judged_arguments(tested: GuardUnderTest) -> None:
    """Later changes to the arguments have no effect; a call that was denied, or that has ended, has no permit."""
    args = {"amount": 50, "order": "W1", "lines": [1]}
    call, denied = HostCall("refund", args, "c", "1"), refund(500)
    assert [tested.guard.before(proposed).label for proposed in (call, denied)] == [0, 1]
    args["amount"], args["lines"] = 500, [2]
    for others in ({"amount": 500, "order": "W1", "lines": [1]}, {"amount": True, "order": "W1", "lines": [1]}):
        with pytest.raises(InputError, match=r"another call|other arguments"):
            tested.guard.use(call, others)
    assert tested.guard.use(call) == {"amount": 50, "order": "W1", "lines": [1]}
    with pytest.raises(InputError, match=r"already used|used already"):
        tested.guard.use(call)
    tested.guard.after(call, Outcome("x"))
    for proposed in (call, denied):
        with pytest.raises(InputError, match="is in flight"):
            tested.guard.use(proposed)
    with pytest.raises(InputError):
        tested.guard.use(refund(conversation="never begun"))
