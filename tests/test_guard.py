import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

import guardagent
from guardagent import GuardAgent, GuardError, InputError, Toolbox, UnknownNameError, aguard, guard
from tests.runs import ehr_input, ehr_log

ALLOW = """
    def check(agent_input: str, agent_output: str, facts: dict) -> dict:
        check_access({}, {})
        return {"label": 0, "answer": agent_output}
    """
CRASH = """
    def check(agent_input: str, agent_output: str, facts: dict) -> dict:
        raise ValueError("no idea")
    """


def test_one_call_judges_a_run() -> None:
    """The public function works for a known agent without a model."""
    allowed = guard(None, ehr_input("nursing"), ehr_log(), agent="ehragent")
    denied = guard("", ehr_input("nursing"), ehr_log("diagnosis", "diagnosisname"), agent="ehragent")
    assert (allowed.label, allowed.answer, allowed.model_calls) == (0, "7.4", 0)
    assert (denied.label, denied.answer) == (1, None)
    assert set(denied.details["inaccessible"]["diagnosis"]) == {"diagnosisname", "patientunitstayid"}


def test_async_gives_the_same_verdicts_and_concurrent_runs_do_not_mix() -> None:
    """Each run from asyncio and from threads gets its own verdict."""
    runs = [(ehr_input(role), ehr_log(answer=str(n))) for n in range(20) for role in ("nursing", "cook")]
    expected = [guard(None, request, log, agent="ehragent") for request, log in runs]

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(aguard(None, request, log, agent="ehragent") for request, log in runs))

    with ThreadPoolExecutor(8) as pool:
        threaded = list(pool.map(lambda run: guard(None, run[0], run[1], agent="ehragent"), runs))
    for got in (asyncio.run(all_at_once()), threaded):
        assert [v.timed(0) for v in got] == [v.timed(0) for v in expected]


def test_without_a_program_or_a_model_the_denial_says_what_to_configure() -> None:
    """A custom request needs a model; without one the run is denied."""
    verdict = guard("Nobody may read salaries.", "in", "out")
    assert verdict.label == 1
    assert "GUARDAGENT_MODEL" in verdict.errors[0]


def test_a_program_does_not_judge_another_request() -> None:
    """The program of a known agent implements that agent's request only."""
    verdict = guard("Nobody may read anything.", ehr_input("nursing"), ehr_log(), agent="ehragent")
    assert "written for another request" in verdict.errors[0]
    known = GuardAgent(agent="ehragent").request
    assert guard(f"  {known}\n", ehr_input("nursing"), ehr_log(), agent="ehragent").label == 0
    spec = guard(None, ehr_input("nursing"), ehr_log(), "Another agent.", agent="ehragent")
    assert "written for another request or specification" in spec.errors[0]


def test_mode_generate_never_uses_the_program(agent_folder: Callable[..., Path]) -> None:
    """Mode 'program' never calls a model."""
    memory = agent_folder(ALLOW)
    assert GuardAgent(agent="echo", memory=memory, mode="generate").guard("a", "b").errors
    assert GuardAgent(agent="echo", memory=memory, mode="program", model="x/y").guard("a", "b").label == 0
    bare = GuardAgent(agent="bare", memory=agent_folder(name="bare"), mode="program")
    assert "'bare' has no program" in bare.guard("a", "b").errors[0]


@pytest.mark.parametrize("value", ["", " \n", None, 5, b"bytes", "x" * 1_000_001])
def test_a_run_that_is_not_a_string_is_denied(value: Any) -> None:
    """Empty, mistyped or oversized input is a denial with the cause, not a traceback."""
    for verdict in (guard(None, value, "out", agent="ehragent"), guard(None, "in", value, agent="ehragent")):
        assert verdict.label == 1
        assert "expected" in verdict.errors[0]


def test_on_error_decides_the_outcome_of_an_unchecked_run(agent_folder: Callable[..., Path]) -> None:
    """It can be denied, escalated or raised, but not allowed."""
    memory = agent_folder(CRASH)

    def make(on_error: Any) -> GuardAgent:
        return GuardAgent(agent="echo", memory=memory, on_error=on_error)

    assert make("deny").guard("a", "b").decision == "deny"
    assert make("escalate").guard("a", "b").decision == "escalate"
    with pytest.raises(GuardError, match="no idea"):
        make("raise").guard("a", "b")
    with pytest.raises(UnknownNameError, match="known: deny, escalate, raise"):
        make("allow")


def test_invalid_options_are_errors_when_the_guard_is_created() -> None:
    """They do not wait for the first check."""
    for options in (
        {"mode": "fast"},
        {"sandbox": "docker"},
        {"agent": "nobody"},
        {"toolbox": "nowhere"},
        {"request": ""},
    ):
        with pytest.raises(InputError):
            GuardAgent(**options)  # type: ignore[arg-type]


def test_a_changed_program_is_used_at_once(agent_folder: Callable[..., Path]) -> None:
    """`guard` caches only while the files stay the same."""
    memory = agent_folder(ALLOW)
    options: dict[str, Any] = {"agent": "echo", "memory": str(memory)}
    assert guard(None, "a", "b", **options).label == 0
    program = memory / "echo" / "program.py"
    program.write_text(program.read_text().replace('"label": 0', '"label": 1'))
    assert guard(None, "a", "b", **options).label == 1


def test_a_custom_sandbox_or_toolbox_is_accepted(agent_folder: Callable[..., Path]) -> None:
    """Any object with the sandbox's methods works."""

    class Always:
        def run(self, program: str, inputs: Any, functions: Any, now: Any = None) -> Any:
            functions["check_access"]({}, {})
            return {"label": 0, "answer": inputs["agent_output"][::-1]}

        def close(self) -> None:
            pass

    own = GuardAgent(agent="echo", memory=agent_folder(ALLOW), sandbox=Always(), toolbox=Toolbox.load())
    assert own.guard("a", "abc").answer == "cba"


def test_nothing_is_left_open_or_running() -> None:
    """A closed guard has no descriptors and no processes, and can be used again."""
    me = psutil.Process(os.getpid())
    others = set(me.children())  # children that other tests started
    with GuardAgent(agent="ehragent") as guard_agent:
        guard_agent.guard(ehr_input("nursing"), ehr_log())
    before = me.num_fds()
    with guard_agent:
        assert guard_agent.guard(ehr_input("nursing"), ehr_log()).label == 0
        assert set(me.children()) - others
    assert me.num_fds() == before
    assert not set(me.children()) - others


def test_everything_exported_exists_and_nothing_else_is_public() -> None:
    """`__all__` lists exactly the public names."""
    for name in guardagent.__all__:
        assert getattr(guardagent, name) is not None
    assert sorted(guardagent.__all__) == guardagent.__all__
