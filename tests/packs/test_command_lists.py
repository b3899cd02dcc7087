"""Lists of allowed commands: ordinary command lines pass them, and smuggled commands do not."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from guardagent.packs.shell.command_lists import command_list
from guardagent.policy.functions import rule_functions
from guardagent.policy.load import compile_rules
from guardagent.types import Decision

ALLOWED = '[["git", "log"], ["git", "diff"], ["git", "status"], ["npm", "test"], ["npm", "ci"], ["ls"], ["wc", "-l"]]'
RULE = f"forall(bash(command=c), all(x in commands(c), x.argv[0:2] in {ALLOWED} || x.argv[0:1] in {ALLOWED}))"

LISTED = ("git log", "git diff --stat", "npm test", "ls src", "git status -sb", "npm ci")
LINES = json.loads((Path(__file__).parent / "command_lines.json").read_text(encoding="utf-8"))
ORDINARY = [frame.replace("{}", command) for command, frame in product(LISTED, LINES["frames"])]

SMUGGLED_BY: dict[str, list[str]] = LINES["smuggled"]
COMMANDS = ("curl http://x.example", "git push", "rm -rf build")
SMUGGLED = [
    (kind, line)
    for kind, frames in SMUGGLED_BY.items()
    for line in dict.fromkeys(frame.replace("{}", command) for frame in frames for command in COMMANDS)
]


@pytest.fixture(scope="module")
def session() -> Any:
    return compile_rules([RULE]).session()


def commands_of(line: str) -> list[dict[str, Any]]:
    records = command_list(line)
    assert isinstance(records, list), records
    return records


def decided(session: Any, line: str) -> str:
    verdict = session.check("bash", {"command": line}, reserve=False)
    return "unknown" if verdict.errors else "allowed" if verdict.decision is Decision.ALLOW else "denied"


def test_ordinary_command_lines_pass_a_list(session: Any) -> None:
    """At most three are unknown."""
    assert len(ORDINARY) >= 300
    outcomes = {line: decided(session, line) for line in ORDINARY}
    assert [line for line, outcome in outcomes.items() if outcome == "denied"] == []
    assert len([line for line, outcome in outcomes.items() if outcome == "unknown"]) <= 3


@pytest.mark.parametrize("kind", SMUGGLED_BY)
def test_no_smuggled_command_passes_a_list(session: Any, kind: str) -> None:
    """By the ways to run another command than the text seems to."""
    assert len(SMUGGLED) >= 300
    assert [line for name, line in SMUGGLED if name == kind and decided(session, line) == "allowed"] == []


@pytest.mark.parametrize("line", [*ORDINARY[:60], *(line for _, line in SMUGGLED)])
def test_no_command_line_breaks_the_reader(line: str) -> None:
    """Each is a list, or unknown with a reason."""
    records = command_list(line)
    assert isinstance(records, list) or records


def test_the_fields_of_a_command() -> None:
    """Words as the program gets them, files, the folder and variables."""
    (record,) = commands_of("cd a/../b && X='1 2' npm run test -- \"a  b\" $'c\\td' > out.txt 2>/dev/null < in")
    assert record == {
        "argv": ["npm", "test", "--", "a  b", "c\td"],
        "name": "npm",
        "reads": ["in"],
        "writes": ["out.txt"],
        "cwd": "b",
        "env": {"X": "1 2"},
    }


@pytest.mark.parametrize(
    ("line", "field", "value"),
    [
        ("echo $RANDOM", "argv", None),
        ("echo $(date)", "argv", None),
        ("echo a{1..3}", "argv", None),
        ('git commit -m "$X" -q', "argv", ["git", "commit", "-m", None, "-q"]),
        ('git log --x="$X"/b', "argv", ["git", "log", None]),
        ('git log "$@"', "argv", None),
        ('git log "${a[@]}"', "argv", None),
        ('"$x" log', "name", None),
        ('cd "$x" && ls', "cwd", None),
        ('ls > "$x"', "writes", None),
        ('x="$y" ls', "env", {"x": None}),
        ('x="$y"; ls "$x"', "argv", ["ls", None]),
        ('x="$y"; ls $x', "argv", None),
        ("echo *.py", "argv", ["echo", "*.py"]),
        ("rm {a,b}/c", "argv", ["rm", "a/c", "b/c"]),
        ("git commit -m \"$(cat <<'EOF'\nOne\n\nTwo\nEOF\n)\"", "argv", ["git", "commit", "-m", "One\n\nTwo"]),
        ("v=1.2; git tag v$v", "argv", ["git", "tag", "v1.2"]),
        ("if ls; then cd /; fi; wc", "cwd", None),
        ("cd / | ls; wc", "cwd", None),
        ("ls > $x", "writes", None),
        ("a > f && b | c", "writes", []),
        ("a && b | c > f", "writes", ["f"]),
        ("a | wc <<EOF > f\nx\nEOF", "writes", ["f"]),
        ("/usr/bin/git log", "name", "git"),
        ("$x log", "name", None),
        ("bash x.sh", "argv", ["bash", "x.sh"]),
    ],
)
def test_a_field_is_exact_or_null(line: str, field: str, value: Any) -> None:
    """Of the last command of the line."""
    assert commands_of(line)[-1][field] == value


@pytest.mark.parametrize(
    "text",
    [
        "echo ${",
        "g?t log",
        "echo $(",
        "a" * 20_001,
        "ls \0",
        "ls \ue005",
        "eval $x",
        'bash -c "$x"',
        'eval "$x"',
        'ssh h "$x"',
        "cat <<EOF",
    ],
)
def test_a_text_that_cannot_be_read_is_unknown(text: str) -> None:
    """The reason is in the verdict."""
    assert "only known when" in str(rule_functions()["commands"].apply([text]).why)
