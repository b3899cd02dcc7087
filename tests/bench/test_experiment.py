"""`run_evaluation` runs any folder of benchmarks, and writes rows, summary, table and plot."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guardagent.bench import run_evaluation
from guardagent.bench.results import Results
from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.models import Message
from tests.bench.scripted_guard import data, guarding
from tests.conftest import Cli
from tests.models.conftest import Serve, serve  # noqa: F401 - a fixture
from tests.models.server import Reply, text
from tests.tiers import slow_after

from .fakes import write_lines

EVALUATION = """
from guardagent.bench import BenchExample, Evaluation, PaperRow, read_examples

def line(record):
    id, request, log = (record.string(key) for key in ("id", "agent_input", "agent_output"))
    return BenchExample(id, request, log, record.label())

EVALUATION = Evaluation(
    agent="porter",
    load=lambda path: read_examples(path, line),
    explained=lambda verdict, example: "vault" in verdict.details["inaccessible"],
    answered=lambda answer, example: answer == "open",
    run_answer=lambda example: example.agent_output,
    groups=lambda example: {"door": example.agent_input.split()[-1]},
    paper=(PaperRow("Somebody | else", "a paper", {"LPA": 50, "EA": None}),),
)
"""
PROGRAM = """
def check(agent_input: str, agent_output: str, facts: dict) -> dict:
    denied, inaccessible = check_access({"lobby": []}, {agent_input.split()[-1]: []})
    details = {"inaccessible": inaccessible}
    return {"label": int(denied), "details": details, "answer": None if denied else agent_output}
"""

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs an evaluation that consists of nothing but a new folder."""
    memory = tmp_path / "memory" / "porter"
    memory.mkdir(parents=True)
    (memory / "request.md").write_text("Nobody may enter the vault.")
    (memory / "specification.md").write_text("Opens doors.")
    (memory / "program.py").write_text(PROGRAM)
    demonstration = {"agent_input": "i", "agent_output": "o", "plan": ["1", "2", "3", "4"], "code": "c"}
    write_lines(memory / "demonstrations.jsonl", demonstration)
    (tmp_path / "benchmarks" / "front_desk").mkdir(parents=True)
    (tmp_path / "benchmarks" / "front_desk" / "evaluation.py").write_text(EVALUATION)
    data = write_lines(
        tmp_path / "data.jsonl",
        {"id": "1", "agent_input": "open the lobby", "agent_output": "open", "label": 0},
        {"id": "2", "agent_input": "open the vault", "agent_output": "open", "label": 1},
    )

    def run(name: str = "front-desk", **options: Any) -> dict[str, Any]:
        folders = {"memory": tmp_path / "memory", "benchmarks": tmp_path / "benchmarks"}
        return run_evaluation(name, data, tmp_path / "out", **{"mode": "program", **folders, **options})

    return run


@pytest.mark.slow
def test_a_new_folder_is_a_new_evaluation(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows, summary, table and plot are there; off a terminal nothing is printed."""
    pytest.importorskip("matplotlib")
    summary = run(progress=True)
    assert {name: summary[name] for name in ("n", "LPA", "LPP", "LPR", "EA", "FRA", "errors")} == {
        "n": 2, "LPA": 100, "LPP": 100, "LPR": 100, "EA": 100, "FRA": 100, "errors": 0,
    }  # fmt: skip
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == ["plot.png", "results.jsonl", "summary.json", "table.md"]
    assert json.loads((out / "summary.json").read_text()) == summary
    assert summary["data"] == "data.jsonl"
    assert capsys.readouterr() == ("", "")


def test_the_table_tells_measured_from_quoted(run: Run, tmp_path: Path) -> None:
    """The paper's numbers carry its name; n/a is no number, and a dash is not reported."""
    run()
    text = (tmp_path / "out" / "table.md").read_text()
    assert "| **this run** | measured | 2 | 100.0 | 100.0 | 100.0 | 100.0 | 100.0 |" in text
    assert "| Somebody \\| else | paper (a paper) | - | 50.0 | - | - | n/a | - |" in text
    assert "| vault | measured | 1 | 100.0 | 100.0 | 100.0 | 100.0 | n/a |" in text


def test_a_changed_program_is_judged_anew(run: Run, tmp_path: Path) -> None:
    """Rows of the old program do not count for the new one."""
    run()
    program = tmp_path / "memory" / "porter" / "program.py"
    program.write_text(PROGRAM.replace('{"lobby": []}', '{"lobby": [], "vault": []}'))
    assert run()["LPR"] == 0


def test_an_unfinished_name_is_answered_with_the_nearest(run: Run) -> None:
    """The message names the evaluations that exist."""
    with pytest.raises(UnknownNameError, match="unknown evaluation 'front-dsk'; did you mean 'front-desk'"):
        run("front-dsk")


def test_a_guard_that_could_judge_nothing_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without program and model, every row would only say so."""
    monkeypatch.delenv("GUARDAGENT_MODEL", raising=False)
    (tmp_path / "memory" / "porter" / "program.py").unlink()
    with pytest.raises(InputError, match="agent 'porter' has no program"):
        run(mode="auto")


def test_a_broken_evaluation_names_its_file(run: Run, tmp_path: Path) -> None:
    """A file that crashes, or defines no evaluation, is an error of that file."""
    file = tmp_path / "benchmarks" / "front_desk" / "evaluation.py"
    file.write_text("1 / 0")
    with pytest.raises(ContentError, match=r"evaluation\.py: cannot be loaded: ZeroDivisionError"):
        run()
    file.write_text("EVALUATION = 1")
    with pytest.raises(ContentError, match=r"evaluation\.py: does not define 'EVALUATION'"):
        run()


def test_without_matplotlib_there_is_no_plot(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what to install, and everything else is written."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    run()
    assert "pip install '.[bench]'" in capsys.readouterr().err
    assert not (tmp_path / "out" / "plot.png").exists()
    assert (tmp_path / "out" / "summary.json").exists()


def test_out_is_a_folder(run: Run, tmp_path: Path) -> None:
    """A file in its place is an error."""
    (tmp_path / "out").write_text("")
    with pytest.raises(InputError, match="the folder cannot be created"):
        run()


def test_the_rows_of_other_data_are_not_replaced(tmp_path: Path) -> None:
    """A folder that holds another evaluation is refused, and stays as it is."""
    write_lines(tmp_path / "results.jsonl", {"id": "x", "label": 0, "truth": 0, "errors": [], "digest": "d"})
    before = (tmp_path / "results.jsonl").read_bytes()
    says = "holds 1 rows of other data, such as 'x'"
    with Results(tmp_path / "results.jsonl") as results, pytest.raises(InputError, match=says):
        results.refuse_other_rows(["y"])
    assert (tmp_path / "results.jsonl").read_bytes() == before


# --- every mode of an evaluation through the command line, against a server, interrupted and resumed


def answer(request: dict[str, Any]) -> Reply:
    return text(guarding([Message(message["role"], message["content"]) for message in request["messages"]]))


@pytest.mark.parametrize("options", [[], ["--votes", "2"], ["--without-memory"]])
def test_an_estimate_counts_what_a_run_asks(serve: Serve, cli: Cli, tmp_path: Path, options: list[str]) -> None:  # noqa: F811
    """Its calls but for repairs, and its words up to those of the plans; without a call."""
    files, rest = ("--data", data(tmp_path), "--out", tmp_path / "out"), ("--debug-rounds", "0", "--json", *options)
    command = ("bench", "eicu-ac", *files, "--mode", "generate", "--model", "openai/test", "--prices", "1,2", *rest)
    server = serve(answer)
    counts = json.loads(cli(*command, "--estimate").out)
    assert (server.requests, (tmp_path / "out").exists()) == ([], False)
    assert cli(*command).status == 0
    words = sum(len(message["content"].split()) for request in server.requests for message in request["messages"])
    assert counts["model_calls"] == len(server.requests)
    assert words == pytest.approx(counts["prompt_words"], rel=0.2)
    assert counts["dollars"] > 0


@pytest.mark.parametrize("workers", slow_after(1, [3, 1]))
@pytest.mark.parametrize(
    ("options", "wanted", "requests"),
    slow_after(
        2,
        [
            (["--mode", "generate", "--debug-rounds", "1"], {"LPA": 60.0, "EA": 66.67}, 12),
            (["--mode", "model-only"], {"LPA": 80.0, "EA": 66.67}, 5),
            (["--mode", "generate", "--debug-rounds", "1", "--k", "2", "--least-similar"], {"LPA": 60.0}, 12),
            (["--mode", "generate", "--debug-rounds", "1", "--without-memory", "--votes", "2"], {"LPA": 60.0}, 24),
            (["--mode", "generate", "--debug-rounds", "1", "--required-checks"], {"LPA": 80.0}, 12),
            (["--mode", "model-only", "--without-code-instructions"], {"LPA": 80.0}, 5),
        ],
    ),
)
def test_a_mode_runs_is_interrupted_and_goes_on(
    serve: Serve,  # noqa: F811
    cli: Cli,
    tmp_path: Path,
    options: list[str],
    wanted: dict[str, float],
    requests: int,
    workers: int,
) -> None:
    """Ctrl-C at the third request; the same command then asks for no more than what is missing."""
    stopped = []

    def stopping(request: dict[str, Any]) -> Reply:
        stopped.append(request)
        if len(stopped) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return answer(request)

    files = ("--data", data(tmp_path), "--out", tmp_path / "out")
    command = ("bench", "eicu-ac", *files, "--model", "openai/test", *options, "--workers", workers, "--json")
    serve(stopping)
    first = cli(*command)
    assert (first.status, first.out) == (130, "")
    assert "run the same command again to resume" in first.err
    kept = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    server = serve(answer)
    ran = cli(*command)
    summary = json.loads(ran.out)
    assert ran.status == 0
    assert {name: summary[name] for name in wanted} == wanted
    judged = [re.findall(r"run-\d", request["messages"][-1]["content"])[-1] for request in server.requests]
    again = {row["id"] for row in kept if not row["errors"]}
    assert not again.intersection(judged), "what was kept is not judged again"
    assert len(judged) <= requests - len(again)
