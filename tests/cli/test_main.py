import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Ran
from tests.runs import ehr_input, ehr_log

Cli = Callable[..., Ran]
Write = Callable[..., Path]

PROGRAM = """
    def check(agent_input: str, agent_output: str, facts: dict) -> dict:
        denied, why = check_access({"lab": ["labname"]}, columns_read(agent_output))
        return {"label": 1 if denied else 0, "details": {"inaccessible": why}, "answer": agent_output[-3:]}
    """


@pytest.fixture
def run_files(write: Write) -> list[object]:
    """Options for an allowed run of a nurse."""
    return ["--input", write("in.txt", ehr_input("nursing")), "--output-log", write("out.txt", ehr_log())]


def test_guard_says_allowed_with_the_answer(cli: Cli, run_files: list[object]) -> None:
    """Exit 0; for people a few lines, with --json one object and nothing else."""
    shown = cli("guard", "--agent", "ehragent", *run_files)
    assert (shown.status, shown.err) == (0, "")
    assert "ALLOWED" in shown.out
    assert "7.4" in shown.out
    printed = cli("guard", "--agent", "ehragent", *run_files, "--json")
    assert json.loads(printed.out)["answer"] == "7.4"
    assert printed.out.count("\n") == 1


def test_guard_says_denied_with_the_reasons(cli: Cli, write: Write) -> None:
    """Exit 1, the reasons, and no answer."""
    files = [
        "--input",
        write("in.txt", ehr_input("nursing")),
        "--output-log",
        write("out.txt", ehr_log("cost", "cost", "the-answer")),
    ]
    shown = cli("guard", "--agent", "ehragent", *files)
    assert shown.status == 1
    assert "may not read cost" in shown.out
    assert "the-answer" not in shown.out


def test_what_cannot_be_checked_exits_3(cli: Cli, write: Write, run_files: list[object]) -> None:
    """A denial, with the cause."""
    request = write("request.md", "Nobody may read salaries.")
    ran = cli("guard", "--request", request, *run_files, "--json")
    assert ran.status == 3
    assert "GUARDAGENT_MODEL" in json.loads(ran.out)["errors"][0]


def test_facts_win(cli: Cli, write: Write) -> None:
    """A JSON object of what the host knows."""
    files = ["--input", write("in.txt", ehr_input("cook")), "--output-log", write("out.txt", ehr_log())]
    assert cli("guard", "--agent", "ehragent", *files).status == 3
    assert cli("guard", "--agent", "ehragent", *files, "--facts", write("f.json", '{"role": "nursing"}')).status == 0


def test_show_code_shows_the_program_that_decided(cli: Cli, run_files: list[object]) -> None:
    """For whoever wants to know what was checked."""
    assert "check_access(ACCESS[role], needed)" in cli("guard", "--agent", "ehragent", *run_files, "--show-code").out


def test_run_runs_one_program_file(cli: Cli, write: Write, run_files: list[object]) -> None:
    """With the same exit statuses, and a toolbox of one's own."""
    ran = cli("run", write("p.py", PROGRAM), *run_files, "--json")
    assert ran.status == 1
    assert "patient" in json.loads(ran.out)["details"]["inaccessible"]
    own = write("tools/t.py", 'def check_it(x: str) -> tuple[bool, str]:\n    """Checks."""\n    return False, ""\n')
    source = "def check(agent_input, agent_output, facts):\n    check_it('')\n    return {'label': 0}\n"
    assert cli("run", write("q.py", source), *run_files, "--toolbox", own.parent, "--sandbox", "monty").status == 0
    assert cli("run", write("q.py", source), *run_files).status == 3


def test_toolbox_and_memory_are_listed(cli: Cli) -> None:
    """For people and for programs."""
    assert "check_access" in cli("toolbox", "list").out
    names = [row["name"] for row in json.loads(cli("toolbox", "list", "--json").out)["functions"]]
    assert {"check_access", "check_rule", "columns_read", "classify"} <= set(names)
    assert "needed" in cli("toolbox", "show", "check_access").out
    agents = {row["name"]: row for row in json.loads(cli("memory", "list", "--json").out)["agents"]}
    assert agents["ehragent"]["program"] is True


def test_memory_add_validates_and_adds(cli: Cli, write: Write, agent_folder: Callable[..., Path]) -> None:
    """Four steps or nothing."""
    memory = agent_folder()
    good = {"agent_input": "a", "agent_output": "b", "plan": ["1", "2", "3", "4"], "code": "c"}
    new = write("new.jsonl", json.dumps(good))
    assert "added 1" in cli("memory", "add", "--agent", "echo", "--memory", memory, new).out
    bad = cli(
        "memory", "add", "--agent", "echo", "--memory", memory, write("b.jsonl", json.dumps(good | {"plan": ["1"]}))
    )
    assert bad.status == 2
    assert "b.jsonl:1: the plan has 1 steps; expected four" in bad.err


def test_init_makes_a_project_that_runs(cli: Cli, tmp_path: Path) -> None:
    """Both runs and the cases of the starter project judge as its README says, and nothing is overwritten."""
    folder = tmp_path / "mine"
    assert str(folder) in cli("init", folder).out
    options = ["--agent", "refunds", "--memory", folder / "memory", "--toolbox", folder / "toolbox"]
    for run, status in (("small", 0), ("large", 1)):
        files = ["--input", folder / f"runs/{run}-input.txt", "--output-log", folder / f"runs/{run}-output.txt"]
        assert cli("guard", *options, *files).status == status
    assert cli("test", folder / "policies.yaml", folder / "cases.jsonl").status == 0
    assert cli("init", folder).status == 2


def test_demo_shows_both_verdicts_of_each_agent(cli: Cli) -> None:
    """Request, checks, verdict and reasons, and what to try next."""
    out = cli("demo").out
    assert out.count("ALLOWED") == out.count("DENIED") == 3
    for text in ("ehragent", "seeact", "csqa", "check_access(", "check_rule(", "guardagent init"):
        assert text in out


def test_version_and_help(cli: Cli) -> None:
    """Both end well."""
    assert cli("--version").out.startswith("guardagent 0.")
    assert "guard" in cli("--help").out
