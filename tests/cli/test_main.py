"""The command line: its commands, their options and their errors."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import guardagent
from guardagent.cli.commands import COMMANDS, LazyCommand, Subcommands
from tests.conftest import Cli, Write
from tests.runs import ehr_input, ehr_log
from tests.shop import case, write_lines, write_policies
from tests.tiers import slow_but_every

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
    """Exit 0; a few lines of text, or one object with --json."""
    shown = cli("guard", "--agent", "ehragent", *run_files)
    assert (shown.status, shown.err) == (0, "")
    assert "ALLOWED" in shown.out
    assert "7.4" in shown.out
    printed = cli("guard", "--agent", "ehragent", *run_files, "--json")
    assert json.loads(printed.out)["answer"] == "7.4"
    assert printed.out.count("\n") == 1


def test_guard_says_denied_with_the_reasons(cli: Cli, write: Write) -> None:
    """Exit 1, the reasons, and no answer."""
    log = ehr_log("cost", "cost", "the-answer")
    files = ["--input", write("in.txt", ehr_input("nursing")), "--output-log", write("out.txt", log)]
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
    """Facts override the input of the agent."""
    files = ["--input", write("in.txt", ehr_input("cook")), "--output-log", write("out.txt", ehr_log())]
    assert cli("guard", "--agent", "ehragent", *files).status == 3
    assert cli("guard", "--agent", "ehragent", *files, "--facts", write("f.json", '{"role": "nursing"}')).status == 0


def test_facts_are_a_file_or_the_text_itself(cli: Cli, write: Write) -> None:
    """Inline JSON begins with `{`; both forms have located errors."""
    files = ["--input", write("in.txt", ehr_input("cook")), "--output-log", write("out.txt", ehr_log())]
    assert cli("guard", "--agent", "ehragent", *files, "--facts", ' {"role": "nursing"}').status == 0
    for facts, says in (
        ("{role: nursing}", "--facts:1: not JSON at column 2"),
        ('{"role": 1, "role": 2}', "--facts: not acceptable JSON: key 'role' appears twice"),
        ("nowhere.json", "nowhere.json: no such file"),
        (write("list.json", "[]"), "list.json: is a list; expected a JSON object of facts"),
    ):
        ran = cli("guard", "--agent", "ehragent", *files, "--facts", facts)
        assert ran.status == 2
        assert says in ran.err


def test_show_code_shows_the_program_that_decided(cli: Cli, run_files: list[object]) -> None:
    """The code of the program is printed."""
    assert "check_access(ACCESS[role], needed)" in cli("guard", "--agent", "ehragent", *run_files, "--show-code").out


def test_run_runs_one_program_file(cli: Cli, write: Write, run_files: list[object]) -> None:
    """It has the same exit statuses, and accepts another toolbox."""
    ran = cli("run", write("p.py", PROGRAM), *run_files, "--json")
    assert ran.status == 1
    assert "patient" in json.loads(ran.out)["details"]["inaccessible"]
    own = write("tools/t.py", 'def check_it(x: str) -> tuple[bool, str]:\n    """Checks."""\n    return False, ""\n')
    source = "def check(agent_input, agent_output, facts):\n    check_it('')\n    return {'label': 0}\n"
    assert cli("run", write("q.py", source), *run_files, "--toolbox", own.parent, "--sandbox", "monty").status == 0
    assert cli("run", write("q.py", source), *run_files).status == 3


def test_toolbox_and_memory_are_listed(cli: Cli) -> None:
    """Both print text or JSON."""
    assert "check_access" in cli("toolbox", "list").out
    names = [row["name"] for row in json.loads(cli("toolbox", "list", "--json").out)["functions"]]
    assert {"check_access", "check_rule", "columns_read", "classify"} <= set(names)
    assert "needed" in cli("toolbox", "show", "check_access").out
    assert json.loads(cli("toolbox", "show", "check_access", "--json").out)["path"].endswith("access.py")
    agents = {row["name"]: row for row in json.loads(cli("memory", "list", "--json").out)["agents"]}
    assert agents["ehragent"]["program"] is True


def test_memory_add_validates_and_adds(cli: Cli, write: Write, agent_folder: Callable[..., Path]) -> None:
    """A plan needs four steps."""
    memory = agent_folder()
    good = {"agent_input": "a", "agent_output": "b", "plan": ["1", "2", "3", "4"], "code": "c"}
    new = write("new.jsonl", json.dumps(good))
    assert "added 1" in cli("memory", "add", "--agent", "echo", "--memory", memory, new).out
    other = write("other.jsonl", json.dumps(good | {"agent_input": "c"}))
    assert json.loads(cli("memory", "add", "--agent", "echo", "--memory", memory, other, "--json").out)["added"] == 1
    bad = cli(
        "memory", "add", "--agent", "echo", "--memory", memory, write("b.jsonl", json.dumps(good | {"plan": ["1"]}))
    )
    assert bad.status == 2
    assert "b.jsonl:1: the plan has 1 steps; expected four" in bad.err


def test_init_makes_a_project_that_runs(cli: Cli, tmp_path: Path) -> None:
    """Both runs and the cases of the starter project judge as its README says, and nothing is overwritten."""
    folder = tmp_path / "mine"
    assert cli("init", folder).out.strip() == (readme := (folder / "README.md").read_text().strip())
    assert f"--memory {folder}/memory" in readme
    options = ["--agent", "refunds", "--memory", folder / "memory", "--toolbox", folder / "toolbox"]
    for run, status in (("small", 0), ("large", 1)):
        files = ["--input", folder / f"runs/{run}-input.txt", "--output-log", folder / f"runs/{run}-output.txt"]
        assert cli("guard", *options, *files).status == status
    assert cli("test", folder / "cases.jsonl", "--policies", folder / "policies.yaml").status == 0
    assert cli("init", folder).status == 2
    made = json.loads(cli("init", tmp_path / "other", "--json").out)
    assert str(tmp_path / "other" / "policies.yaml") in made["files"]


def test_demo_shows_the_moments_of_a_policy_and_runs_of_three_agents(cli: Cli) -> None:
    """A denial and its reason, an approval, a graph, a log and finished runs, in 60 lines."""
    out = cli("demo").out
    assert out.count("\n") <= 60
    assert [out.count(decision) for decision in (" ALLOW\n", " DENY\n", " ESCALATE\n")] == [6, 6, 1]
    for text in ("Look the order up first", "human_coverage", "rule delivered: violated", "ehragent", "seeact", "csqa"):
        assert text in out


def test_version_and_help(cli: Cli) -> None:
    """Both have a long and a short form."""
    assert cli("--version").out == cli("-V").out == f"guardagent {guardagent.__version__}\n"
    assert cli("--help").out == cli("-h").out


def commands(places: Mapping[str, LazyCommand | Subcommands], *path: str) -> Iterator[tuple[str, ...]]:
    for name, place in places.items():
        yield from commands(place.entries, *path, name) if isinstance(place, Subcommands) else [(*path, name)]


@pytest.mark.parametrize("command", [*commands(COMMANDS)], ids=" ".join)
def test_each_command_explains_itself(cli: Cli, command: tuple[str, ...]) -> None:
    """The group's help lists its name with one line; its own help has the usage."""
    assert f"  {command[-1]} " in cli(*command[:-1], "--help").out
    shown = cli(*command, "-h")
    assert (shown.status, shown.err) == (0, "")
    assert " ".join(("Usage: guardagent", *command)) in shown.out


def test_a_shell_completes_commands_and_options() -> None:
    """By Typer's own completion."""

    def completed(words: str) -> list[str]:
        environment = {
            "_GUARDAGENT_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        command = [sys.executable, "-m", "guardagent"]
        ran = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
        return ran.stdout.split()

    assert completed("guardagent bench") == ["bench", "bench-compare"]
    assert completed("guardagent check --po") == ["--policies"]
    shown = (
        f"{shlex.quote(sys.executable)} -m guardagent --show-completion; true"  # the shell is that of the process above
    )
    assert "_guardagent_completion" in subprocess.check_output(["/bin/bash", "-c", shown], text=True)


# --- errors of commands: exit status and message


@pytest.mark.parametrize(
    ("arguments", "kind", "status", "says"),
    [
        (["check"], "usage", 2, "Missing argument"),
        (["chekc"], "usage", 2, "Did you mean 'check'?"),
        (["check", "cases.jsonl", "-p", "p.yaml", "--wrokers", "2"], "usage", 2, "--workers"),
        (["bench", "eicu-ac", "--data", "d", "--out", "o", "--mode", "fast"], "usage", 2, "fast"),
        (["check", "nowhere.jsonl", "-p", "nowhere.yaml"], "input", 2, "nowhere.yaml: no such file"),
        (["toolbox", "show", "check_acces"], "unknown_name", 2, "did you mean 'check_access'?"),
        (
            ["verify", "nowhere.json", "--format", "sarif"],
            "input",
            2,
            "'--json' and '--format sarif' exclude each other",
        ),
        (["log", "show", "nowhere.db"], "input", 2, "nowhere.db: no such file"),
    ],
)
def test_an_error_is_an_object_with_json(cli: Cli, arguments: list[str], kind: str, status: int, says: str) -> None:
    """One line on standard error, nothing on standard output; as text, the same message."""
    ran = cli(*arguments, "--json")
    error = json.loads(ran.err)["error"]
    assert (ran.status, ran.out, error["kind"], error["status"]) == (status, "", kind, status)
    assert says in error["message"]
    if "sarif" not in arguments:
        words = cli(*arguments)
        assert (words.status, words.out, words.err[:1]) == (status, "", words.err.lstrip("{")[:1])
        assert says in words.err


def test_json_after_two_dashes_belongs_to_another_program(cli: Cli) -> None:
    """An option of the server does not change the output of the proxy."""
    assert cli("mcp-proxy", "--", "server", "--json").err.startswith("guardagent: no policy file")


def test_a_proxy_has_rules_or_a_server(cli: Cli) -> None:
    """Not both, since each would decide otherwise."""
    both = cli("mcp-proxy", "--policies", "p.yaml", "--guard-server", "https://guard.example", "--", "server")
    assert "'--policies' and '--guard-server' exclude each other" in both.err


@pytest.mark.parametrize("reader", ["head -1", "true"])
@pytest.mark.parametrize(
    "command",
    slow_but_every(
        3, ["check CASES -p POLICIES --json", "check CASES -p POLICIES", "toolbox list", "--help", "doctor --json"]
    ),
)
def test_a_closed_pipe_is_not_a_denial(tmp_path: Path, command: str, reader: str) -> None:
    """A closed pipe ends a command quietly with a status of its own."""
    cases = write_lines(tmp_path / "many.jsonl", *(case(f"c{at}", amount=5) for at in range(600)))
    words = command.replace("CASES", str(cases)).replace("POLICIES", str(write_policies(tmp_path)))
    line = f"{sys.executable} -m guardagent {words} | {reader}; exit ${{PIPESTATUS[0]}}"
    ran = subprocess.run(["/bin/bash", "-c", line], capture_output=True, check=False)
    assert ran.stdout.count(b"\n") <= 1
    assert ran.returncode == 141 or (reader != "true" and "check" not in command)
    assert b"rror" not in ran.stderr


def test_an_interrupt_before_anything_is_loaded(tmp_path: Path) -> None:
    """Ctrl-C during the import of Typer exits with 130 and no output."""
    interrupt = "import os, signal, time\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    (tmp_path / "typer.py").write_text(f"{interrupt}os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from guardagent.cli.main import main; main(['doctor'])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, b"", b"")
