"""`timeout` bounds the time of one answer, from the command line and from Python; and a missing key is reported."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent import GuardAgent, InputError, guard
from guardagent.testing import ScriptedModel
from tests.conftest import CommandResult
from tests.models.conftest import Serve
from tests.models.server import text
from tests.runs import ehr_input, ehr_log

LATE = [text("late", seconds=30)]
MODEL = ["--model", "openai/t", "--timeout", 0.4]
TIMED_OUT = "gave no answer within 0.4 seconds"


@pytest.fixture
def files(write: Callable[..., Path]) -> list[object]:
    return ["--input", write("in.txt", ehr_input("nursing")), "--output-log", write("out.txt", ehr_log())]


def test_a_guard_stops_at_the_timeout(cli: Callable[..., CommandResult], serve: Serve, files: list[object]) -> None:
    """It bounds one answer with its retries, from the command line and from Python."""
    serve(LATE)
    started = time.monotonic()
    ran = cli("guard", "--agent", "ehragent", "--mode", "generate", *files, *MODEL, "--json")
    assert (ran.status, TIMED_OUT in json.loads(ran.out)["errors"][0]) == (3, True)
    run = ehr_input("nursing"), ehr_log()
    verdict = guard(None, *run, agent="ehragent", mode="generate", model="openai/t", timeout=0.4)
    assert TIMED_OUT in verdict.errors[0]
    assert time.monotonic() - started < 10


@pytest.mark.slow
def test_compile_stops_at_the_timeout(
    cli: Callable[..., CommandResult], serve: Serve, write: Callable[..., Path], tmp_path: Path
) -> None:
    """Its message has the timeout."""
    serve(LATE)
    runs = [{"id": str(n), "agent_input": f"Q: {n}", "agent_output": "A", "label": n} for n in (0, 1)]
    examples = write("e.jsonl", "\n".join(map(json.dumps, runs)))
    request = write("r.md", "Nobody may do anything.")
    ran = cli("compile", "--request", request, "--examples", examples, *MODEL, "-o", tmp_path / "p.py")
    assert TIMED_OUT in ran.out + ran.err


@pytest.mark.slow
def test_bench_stops_at_the_timeout(
    cli: Callable[..., CommandResult], serve: Serve, write: Callable[..., Path], tmp_path: Path
) -> None:
    """The row of the results has the timeout."""
    serve(LATE)
    run = {"id": "1", "agent_input": ehr_input("nursing"), "agent_output": ehr_log(), "label": 0}
    truth = {"role": "nursing", "question": "?", "required": {"lab": ["labname"]}, "inaccessible": {}, "answer": ["7"]}
    data = write("d.jsonl", json.dumps({**run, **truth}))
    ran = cli("bench", "eicu-ac", "--data", data, "--out", tmp_path / "o", "--mode", "generate", *MODEL)
    assert TIMED_OUT in (tmp_path / "o" / "results.jsonl").read_text(), ran.err


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "5"])
def test_an_invalid_timeout_is_rejected(timeout: float) -> None:
    """An infinite number of seconds would be no limit."""
    with pytest.raises(InputError, match=r"'timeout' is .*; expected a finite"):
        GuardAgent(agent="ehragent", model="openai/t", timeout=timeout)


def test_a_timeout_without_a_named_model(cli: Callable[..., CommandResult], files: list[object]) -> None:
    """It would have no effect."""
    with pytest.raises(InputError, match="a model given by name"):
        GuardAgent(agent="ehragent", model=ScriptedModel([]), timeout=5)
    ran = cli("guard", "--agent", "ehragent", *files, "--timeout", 5)
    assert (ran.status, "'--timeout' needs a model" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("OPENAI_API_KEY", "", "needs a key"),
        ("OPENAI_API_KEY", "caf\xe9", "cannot be sent"),
        ("OPENAI_BASE_URL", "x", "URL"),
    ],
)
def test_an_unsent_request_does_not_count_as_a_model_call(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    """Without a valid key and address no request is sent."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv(variable, value)
    verdict = GuardAgent(agent="ehragent", mode="generate", model="openai/t").guard(ehr_input("nursing"), ehr_log())
    assert message in verdict.errors[0]
    assert (verdict.label, verdict.model_calls, verdict.to_dict()["model_calls"]) == (1, 0, 0)
