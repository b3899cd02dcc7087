"""The runs of a host's agents."""

from guardagent.enforcement.host_adapter import explained_denial, noted_denial
from guardagent.enforcement.host_runs import HostRun, HostScope, ModelRun
from guardagent.errors import ToolDenied
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
