"""The runs of a host's agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from guardagent._support.execution import Operation
from guardagent.enforcement import HostCall
from guardagent.enforcement.host_adapter import explained_denial, noted_denial
from guardagent.enforcement.host_runs import HostRun, HostScope, HostSurroundings, ModelRun, awaited, naming
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Decision, Verdict


class Halted(ToolDenied):
    """The error of a host."""


class Run(ModelRun):
    """A run of a host."""

    halt_error = Halted


def test_a_halt_ends_the_run_and_those_around_it() -> None:
    """Each of them raises the host's own error."""
    outer = Run()
    inner = Run(outer)
    inner.note("refund", Verdict(Decision.HALT, checked_by="policy"))
    assert isinstance(outer.halted, Halted)
    assert outer.halted is inner.halted


def test_an_agent_that_gave_up_ends_its_run_with_the_reason() -> None:
    """The first answer stays."""
    run = HostRun()
    run.note("refund", Verdict(Decision.DENY, reasons=("no",), details={"gave_up": True}, checked_by="policy"))
    run.note("refund", Verdict(Decision.DENY, reasons=("later",), details={"gave_up": True}, checked_by="policy"))
    assert run.final is not None
    assert run.final.endswith("no")
    assert run.halted is None


def test_a_denial_alone_ends_nothing() -> None:
    """The agent may try something else."""
    run = HostRun()
    run.note("refund", Verdict(Decision.DENY, checked_by="policy"))
    assert (run.final, run.halted) == (None, None)


def test_a_nested_call_shows_no_messages() -> None:
    """The model of the run has not proposed it."""
    run = Run(step=2, messages=[{"role": "user", "content": "hi"}])
    assert run.call_options(nested=True) == {"step": f"{run.id}.2"}
    assert run.call_options(nested=False)["messages"] == run.messages


def test_a_denial_without_a_conversation_says_how_to_name_one() -> None:
    """Its run is noted, too."""
    run, denied = Run(), ToolDenied("refund", Verdict(Decision.HALT, checked_by="policy"))
    assert noted_denial(denied, HostScope("c1", run), "name it") is denied
    assert run.halted is not None
    assert explained_denial(denied, None, "name it").verdict.errors == ("name it",)


# --- the surroundings of a host's code


HOST = HostSurroundings("a_host", HostScope)


def test_a_named_conversation_ends_with_its_block() -> None:
    """Outside there are no surroundings."""
    with HOST.conversation("c1"):
        around = HOST.scope()
        assert around is not None
        assert around.conversation == "c1"
    assert HOST.scope() is None


def test_a_tool_keeps_the_conversation_that_it_was_called_in() -> None:
    """A name that the tool gives changes nothing."""
    with HOST.enter(HostScope("c1", call=HostCall("refund", {}, "c1"))), HOST.conversation("c2"):
        around = HOST.scope()
        assert around is not None
        assert around.conversation == "c1"


def test_work_runs_in_its_surroundings_in_both_forms() -> None:
    """The code around it keeps its own."""

    async def scope() -> HostScope | None:
        return HOST.scope()

    work = HOST.within(HostScope("c1"), Operation(HOST.scope, scope))
    assert work.sync_call() == HostScope("c1")
    assert asyncio.run(work.async_call()) == HostScope("c1")  # type: ignore[arg-type]
    assert HOST.scope() is None


def test_a_stream_has_its_surroundings_and_its_reader_its_own() -> None:
    """It is closed in its own as well."""
    closed: list[HostScope | None] = []

    async def events() -> AsyncGenerator[HostScope | None, None]:
        try:
            yield HOST.scope()
            yield HOST.scope()
        finally:
            closed.append(HOST.scope())

    async def read() -> None:
        stream = HOST.stream_within(HostScope("c1"), events())
        assert await anext(stream) == HostScope("c1")
        assert HOST.scope() is None
        await stream.aclose()

    asyncio.run(read())
    assert closed == [HostScope("c1")]


def test_awaited_work_has_no_other_form() -> None:
    """A driver without an event loop cannot run it."""

    async def work() -> str:
        return "done"

    with pytest.raises(InputError, match="awaited"):
        awaited(work).sync_call()


def test_the_name_may_be_a_function() -> None:
    """It is asked each time."""
    names = iter(["c1", "c2"])
    name = naming(lambda: next(names))
    assert [name(), name(), naming("c3")(), naming(None)()] == ["c1", "c2", "c3", None]
