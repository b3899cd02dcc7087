"""Codex CLI: a prefix that is forbidden or asked about, in each command of a text."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent.errors import ContentError
from guardagent.translation.imports.codex import FORMAT
from guardagent.translation.imports.report import NO_OPTIONS, ImportReport

pytest.importorskip("tree_sitter_bash")
FORCE = 'prefix_rule(pattern=["git", "push", "--force"], decision="forbidden", justification="Push without --force.")'

# Rules, and commands with the decision on them.
FILES: dict[str, tuple[str, dict[str, str]]] = {
    "forbidden": (
        FORCE,
        {"git push --force": "deny", "git push": "allow", "cd a && /usr/bin/git push --force x": "deny"},
    ),
    "asked": (
        'prefix_rule(pattern=["cp"], decision="prompt")',
        {"cp a b": "escalate", "cpx": "allow", "ls; cp a b": "escalate"},
    ),
    "choices": (
        'prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt")',
        {"git push x": "escalate", "git fetch": "escalate", "git pull": "allow"},
    ),
    "allowed": (f'prefix_rule(pattern=["ls"])\n{FORCE}', {"ls": "allow", "rm x": "allow", "ls $X": "allow"}),
    "the strictest counts": (
        f'{FORCE}\nprefix_rule(pattern=["git"], decision="prompt")\nprefix_rule(pattern=["git", "push"], decision="allow")',  # noqa: E501 - a rule on one line
        {"git push --force": "deny", "git push": "escalate"},
    ),
    "short forms": (
        'prefix_rule(pattern=["npm", "run"], decision="forbidden")',
        {"npm run x": "deny", "npm test": "deny", "npm install": "allow"},
    ),
    "unreadable": (FORCE, {"git push $X": "escalate", "ls $X": "allow", "eval $X": "escalate"}),
    "nested": (
        'prefix_rule(pattern=["rm"], decision="forbidden")',
        {"sudo rm x": "deny", "bash -c 'rm x'": "deny", "xargs rm": "deny"},
    ),
    "programs": (
        'prefix_rule(pattern=[["curl", "wget"]], decision="forbidden")',
        {"wget x.io": "deny", "curl": "deny", "echo curl": "allow"},
    ),
    "a star": ('prefix_rule(pattern=["ls", "*"], decision="forbidden")', {"ls": "deny", "pwd": "deny"}),
}


def read(text: str) -> ImportReport:
    return FORMAT.read(text, "default.rules", NO_OPTIONS)


@pytest.mark.parametrize(("text", "commands"), FILES.values(), ids=list(FILES))
def test_a_file_decides_as_documented(text: str, commands: dict[str, str]) -> None:
    """Also in the arguments of `exec_command`."""
    policies = read(text).load()
    for tool, argument in (("Bash", "command"), ("exec_command", "cmd")):
        answers = {command: str(policies.session().check(tool, {argument: command}).decision) for command in commands}
        assert answers == commands


def test_the_justification_is_the_reason() -> None:
    (reason,) = read(FORCE).load().session().check("Bash", {"command": "git push --force"}).reasons
    assert reason == "Push without --force."


@pytest.mark.parametrize(
    "text",
    [
        'host_executable(name="git", paths=["/usr/bin/git"])',
        "prefix_rule(pattern=X)",
        'prefix_rule(pattern="rm", decision="forbidden")',
        'prefix_rule(pattern=["rm", ["a", 1]], decision="forbidden")',
        'prefix_rule(pattern=["rm", []], decision="forbidden")',
        'prefix_rule(pattern=["a"], decision="x")',
    ],
)
def test_other_statements_are_rows(text: str) -> None:
    rows: list[Any] = [(rule.status, rule.source) for rule in read(f"{text}\n{FORCE}").rules]
    assert rows == [("not translated", f"allow: {text}"), ("same", f"deny: {FORCE}")]


def test_a_file_that_is_not_starlark_has_its_line() -> None:
    with pytest.raises(ContentError, match=r"default\.rules:2: is not a file of rules"):
        read("\nprefix_rule(")
