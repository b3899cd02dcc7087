"""Invalid input on the command line: exit 2, and a message with the location and what was expected."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Cli, Write
from tests.runs import ehr_input, ehr_log

BAD_FILES = {
    "empty": (b"", "is empty; expected text"),
    "blank": (b" \n\t\n", "is empty; expected text"),
    "large": (b"x" * 2_000_000, "more than 1,000,000 bytes"),
    "binary": (b"\x00\x01\x02" * 10, "expected text, not binary"),
    "latin-1": ("Identité".encode("latin-1"), "not UTF-8"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
@pytest.mark.parametrize("option", ["--input", "--output-log", "--facts", "--request"])
def test_a_bad_file_is_named(cli: Cli, write: Write, kind: str, option: str) -> None:
    """Each option for a file reports which file, and what was expected."""
    content, message = BAD_FILES[kind]
    paths = {"--input": write("in.txt", ehr_input("nursing")), "--output-log": write("out.txt", ehr_log())}
    paths[option] = write("bad.txt", content)
    ran = cli("guard", "--agent", "ehragent", *(item for pair in paths.items() for item in pair))
    assert (ran.status, ran.out) == (2, "")
    assert "bad.txt" in ran.err
    assert message in ran.err


def test_missing_files_and_folders_are_named(cli: Cli, tmp_path: Path) -> None:
    """A folder is not a file, and a missing file is not an empty one."""
    for path, message in ((tmp_path / "none.txt", "no such file"), (tmp_path, "is a folder; expected a file")):
        ran = cli("guard", "--agent", "ehragent", "--input", path, "--output-log", path)
        assert ran.status == 2
        assert message in ran.err


def test_unknown_names_come_with_the_nearest(cli: Cli, write: Write) -> None:
    """This holds for agents, toolbox functions, engines, modes and evaluations."""
    files = ["--input", write("in.txt", "x"), "--output-log", write("out.txt", "y")]
    for arguments, message in (
        (["guard", "--agent", "ehragnet", *files], "did you mean 'ehragent'"),
        (["toolbox", "show", "check_acess"], "did you mean 'check_access'"),
        (["run", write("p.py", "x = 1"), *files, "--sandbox", "mony"], "did you mean 'monty'"),
        (["guard", "--agent", "ehragent", *files, "--mode", "fast"], "fast"),
        (
            ["bench", "eicu", "--data", write("d.jsonl", "{}"), "--out", write("o/x", "").parent],
            "did you mean 'eicu-ac'",
        ),
        (["guard", *files], "expected one in natural language, or the name of a known agent"),
        (["gaurd"], "gaurd"),
        (["guard", "--agent", "ehragent", "--input", "-", "--output-log", "-"], "appears twice"),
    ):
        ran = cli(*arguments)
        assert ran.status == 2, arguments
        assert message in ran.err


TOOLBOXES = {
    "duplicate": ("def check_rule(a, b):\n    'Mine.'\n", "t.py:1: function 'check_rule' is already defined in"),
    "undocumented": ("def f(a):\n    return a\n", "t.py:1: function 'f' has no docstring; expected"),
    "crashing": ("X = {}['missing']\n\ndef f(a):\n    'Doc.'\n", "t.py:1: running this toolbox file failed: KeyError"),
    "syntax": ("def f(a)\n    'Doc.'\n", "t.py:1: not Python"),
}


@pytest.mark.parametrize("kind", TOOLBOXES)
def test_a_bad_toolbox_is_an_error_at_load(cli: Cli, write: Write, kind: str) -> None:
    """Both `guard` and `run` report it before anything is judged."""
    source, message = TOOLBOXES[kind]
    folder = write("tools/t.py", source).parent
    files = ["--input", write("in.txt", ehr_input("nursing")), "--output-log", write("out.txt", ehr_log())]
    program = write("p.py", "def check(agent_input, agent_output, facts):\n    return {'label': 1}\n")
    for command in (["guard", "--agent", "ehragent"], ["run", program]):
        ran = cli(*command, *files, "--toolbox", folder)
        assert (ran.status, ran.out) == (2, "")
        assert message in ran.err


def test_a_function_that_crashes_when_called_denies(cli: Cli, write: Write) -> None:
    """Its file is valid, so there is a verdict: a denial with the cause, exit 3."""
    folder = write("tools/t.py", "def check_it(a):\n    'Doc.'\n    return a.no_such\n").parent
    program = write("p.py", "def check(agent_input, agent_output, facts):\n    check_it(1)\n    return {'label': 0}\n")
    files = ["--input", write("in.txt", "x"), "--output-log", write("out.txt", "y")]
    ran = cli("run", program, *files, "--toolbox", folder, "--json")
    assert ran.status == 3
    assert "check_it: AttributeError" in ran.out


def test_a_demonstration_with_three_steps_stops_the_guard(
    cli: Cli, write: Write, agent_folder: Callable[..., Path]
) -> None:
    """An invalid memory is not used."""
    memory = agent_folder("def check(agent_input, agent_output, facts):\n    return {'label': 1}\n")
    demonstrations = memory / "echo" / "demonstrations.jsonl"
    demonstrations.write_text(demonstrations.read_text().replace('"c", "d"', '"c"'))
    files = ["--input", write("in.txt", "x"), "--output-log", write("out.txt", "y")]
    ran = cli("guard", "--agent", "echo", "--memory", memory, *files)
    assert ran.status == 2
    assert "demonstrations.jsonl:1: the plan has 3 steps; expected four" in ran.err


@pytest.mark.parametrize("facts", ["[]", "{", '{"a": 1, "a": 2}', '{"a": NaN}', '"nursing"', "[" * 100_000])
def test_bad_facts_are_named(cli: Cli, write: Write, facts: str) -> None:
    """Facts decide, so an ambiguous file of facts is rejected."""
    files = ["--input", write("in.txt", ehr_input("nursing")), "--output-log", write("out.txt", ehr_log())]
    ran = cli("guard", "--agent", "ehragent", *files, "--facts", write("facts.json", facts))
    assert ran.status == 2
    assert "facts.json" in ran.err


def test_nothing_is_picked_up_from_the_current_folder(
    cli: Cli, write: Write, agent_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A toolbox, a memory or a program there is used only on request."""
    memory = agent_folder("def check(agent_input, agent_output, facts):\n    return {'label': 0}\n", name="ehragent")
    write("toolbox/t.py", "raise SystemExit(99)\n")
    write("guardagent.py", "raise SystemExit(99)\n")
    files = ["--input", write("in.txt", ehr_input("cook")), "--output-log", write("out.txt", ehr_log())]
    monkeypatch.chdir(memory.parent)
    assert "unknown role" in cli("guard", "--agent", "ehragent", *files).out


def test_standard_input_is_read_for_a_dash(cli: Cli, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its errors name standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(ehr_input("nursing").encode())))
    assert cli("guard", "--agent", "ehragent", "--input", "-", "--output-log", write("o.txt", ehr_log())).status == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    ran = cli("guard", "--agent", "ehragent", "--input", "-", "--output-log", write("o.txt", ehr_log()))
    assert "standard input:1: byte 0 is not UTF-8" in ran.err
