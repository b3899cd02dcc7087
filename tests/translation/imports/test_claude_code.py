"""Claude Code: translated permissions decide as a plain reading of its page, apart from the named differences."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from guardagent.errors import ContentError
from guardagent.translation.imports.claude_code import FORMAT
from guardagent.translation.imports.report import ImportOptions, ImportReport
from guardagent.types import Decision
from tests.translation.imports.claude_reading import ORDER, ROOT, SETTINGS, decide, random_call

pytest.importorskip("tree_sitter_bash")
ANSWERS = {Decision.ALLOW: "allow", Decision.ESCALATE: "ask", Decision.DENY: "deny"}


def read(permissions: dict[str, Any], **options: Any) -> ImportReport:
    return FORMAT.read(json.dumps({"permissions": permissions}, indent=1), "settings.json", ImportOptions(**options))


def answer(report: ImportReport, tool: str, **arguments: Any) -> str:
    verdict = report.load().session().check(tool, arguments)
    assert not verdict.errors
    return ANSWERS[verdict.decision]


# --- files, each with calls and the answer to them

Calls = list[tuple[str, str, str, str]]
FILES: dict[str, tuple[dict[str, Any], Calls]] = {
    "a prefix": (
        {"allow": ["Bash(git log:*)"]},
        [
            ("Bash", "command", "git log -3", "allow"),
            ("Bash", "command", "git logs", "ask"),
            ("Bash", "command", "git log && curl x.io", "ask"),
            ("Bash", "command", "git log $(curl x.io)", "ask"),
            ("Bash", "command", "git log > ~/.bashrc", "ask"),
            ("Bash", "command", "cd / && git log", "ask"),
            ("Bash", "command", "timeout 9 git log", "allow"),
        ],
    ),
    "a whole command": (
        {"allow": ["Bash(npm run build)", "Bash(npm run test)"]},
        [
            ("Bash", "command", "npm run build", "allow"),
            ("Bash", "command", "npm run build now", "ask"),
            ("Bash", "command", "cd web && npm run test", "allow"),
            ("Bash", "command", "npm test x", "ask"),
        ],
    ),
    "stars": (
        {"allow": ["Bash(* --version)", "Bash(make*)", "Bash(git * main)"], "deny": ["Bash(git push *)"]},
        [
            ("Bash", "command", "node --version", "allow"),
            ("Bash", "command", "makefile x", "allow"),
            ("Bash", "command", "git merge main", "allow"),
            ("Bash", "command", "git push origin main", "deny"),
            ("Bash", "command", "git main", "ask"),
        ],
    ),
    "deny comes first": (
        {"allow": ["Bash"], "ask": ["Bash(git push:*)"], "deny": ["Bash(rm:*)", "Bash(npm run:*)"]},
        [
            ("Bash", "command", "python x.py", "allow"),
            ("Bash", "command", "git push", "ask"),
            ("Bash", "command", "git push; /bin/rm x", "deny"),
            ("Bash", "command", "npm test", "deny"),
            ("Bash", "command", "echo $(rm x)", "deny"),
            ("Bash", "command", "bash -c 'rm x'", "deny"),
            ("Bash", "command", "$X", "ask"),
        ],
    ),
    "secrets": (
        {"deny": ["Read(./.env)", "Read(~/.ssh/**)"]},
        [
            ("Read", "file_path", "/home/u/app/.env", "deny"),
            ("Write", "file_path", "/home/u/app/.env", "deny"),
            ("Read", "file_path", "/x/.envrc", "allow"),
            ("Grep", "path", "/home/u/.ssh/id_rsa", "deny"),
            ("Bash", "command", "cat .env", "deny"),
            ("Bash", "command", "wc < .env", "deny"),
            ("Bash", "command", "dd if=.env", "deny"),
            ("Bash", "command", "echo .env", "allow"),
        ],
    ),
    "edits": (
        {"allow": ["Edit(/src/**/*.ts)", "Edit(//tmp/x/)"], "deny": ["Edit(//etc/**)", "Write(dist/)"]},
        [
            ("Edit", "file_path", "/home/u/app/src/a/b.ts", "allow"),
            ("Edit", "file_path", "/home/u/src/b.ts", "ask"),
            ("Write", "file_path", "/tmp/x/y", "allow"),  # noqa: S108 - a path in a call
            ("Write", "file_path", "/etc/hosts", "deny"),
            ("NotebookEdit", "notebook_path", "/dist/a", "deny"),
            ("Bash", "command", "cat x > /etc/hosts", "deny"),
        ],
    ),
    "hosts": (
        {"allow": ["WebFetch(domain:docs.python.org)"], "deny": ["WebFetch(domain:*.evil.com)"]},
        [
            ("WebFetch", "url", "https://docs.python.org/3", "allow"),
            ("WebFetch", "url", "https://docs.python.org.x.io", "ask"),
            ("WebFetch", "url", "https://docs.python.org@a.evil.com/", "deny"),
            ("WebFetch", "url", "https://a.evil.com#docs.python.org", "deny"),
        ],
    ),
    "servers": (
        {
            "allow": ["mcp__db", "Agent(Explore)"],
            "ask": ["mcp__db__write*"],
            "deny": ["mcp__db__drop", "Skill(deploy *)"],
        },
        [
            ("mcp__db__read", "x", "", "allow"),
            ("mcp__db__write_all", "x", "", "ask"),
            ("mcp__db__drop", "x", "", "deny"),
            ("mcp__dbx__y", "x", "", "ask"),
            ("Skill", "skill", "deploy web", "deny"),
            ("Skill", "skill", "review", "allow"),
        ],
    ),
    "edits accepted": (
        {"defaultMode": "acceptEdits", "ask": ["Edit(*.lock)"]},
        [
            ("Edit", "file_path", "/x/a.py", "allow"),
            ("Edit", "file_path", "/x/uv.lock", "ask"),
            ("Bash", "command", "make", "ask"),
        ],
    ),
    "nothing asked": (
        {"defaultMode": "dontAsk", "allow": ["Bash(make)"], "deny": ["Edit", "Write"]},
        [
            ("Bash", "command", "make", "allow"),
            ("Bash", "command", "make x", "deny"),
            ("Edit", "file_path", "/x", "deny"),
            ("WebFetch", "url", "https://x.io", "deny"),
        ],
    ),
}


@pytest.mark.parametrize(("permissions", "calls"), FILES.values(), ids=list(FILES))
def test_a_file_answers_as_documented(permissions: dict[str, Any], calls: Calls) -> None:
    """Each entry is a row of the report."""
    report = read(permissions, project=ROOT)
    assert [answer(report, tool, **{name: value}) for tool, name, value, _ in calls] == [
        expected for *_, expected in calls
    ]
    entries = [f"{name}: {entry}" for name in ("deny", "ask", "allow") for entry in permissions.get(name, ())]
    assert {rule.source for rule in report.rules} >= set(entries)


@pytest.mark.parametrize("seeds", [range(60), pytest.param(range(60, 600), marks=pytest.mark.slow)])
def test_random_calls_get_the_answer_of_a_plain_reading(seeds: range) -> None:
    """Over 500 calls. Where a spelling is a named difference, the answer may differ in its direction."""
    policies = read(SETTINGS, project=ROOT).load()
    for call in map(random_call, map(Random, seeds)):
        ours, theirs = ANSWERS[policies.session().check(call.tool, call.arguments).decision], decide(call)
        is_stricter = call.wider is not None and ORDER.index(ours) > ORDER.index(theirs)
        assert ours == theirs or is_stricter or call.wider, (call, ours, theirs)


def test_nothing_is_dropped() -> None:
    """An entry that cannot be translated asks or denies for its whole tool; other settings stay with the host."""
    report = read(
        {
            "allow": ["Bash(watch *)", "Edit(src/**)", "x y", "mcp__*"],
            "deny": ["PowerShell(rm *)", "Bash(a*b c)"],
            "additionalDirectories": ["../d"],
        }
    )
    assert {rule.source: rule.status for rule in report.rules} == dict.fromkeys(
        [
            "allow: Bash(watch *)",
            "allow: Edit(src/**)",
            "allow: x y",
            "allow: mcp__*",
            "deny: PowerShell(rm *)",
            "deny: Bash(a*b c)",
            'additionalDirectories: ["../d"]',
        ],
        "not translated",
    )
    assert [
        answer(report, "PowerShell", command="x"),
        answer(report, "Bash", command="ls"),
        answer(report, "Edit", file_path="/src/a"),
    ] == ["deny", "deny", "ask"]
    assert [rule.line for rule in report.rules] == sorted(rule.line for rule in report.rules)
    assert not report.settled


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "expected a mapping"),
        ('{"permissions": {"deny": "Bash"}}', r"permissions\.deny: expected a list of strings"),
    ],
)
def test_invalid_settings_say_what_is_expected(text: str, message: str) -> None:
    with pytest.raises(ContentError, match=f"settings.json.*{message}"):
        FORMAT.read(text, "settings.json", ImportOptions())
