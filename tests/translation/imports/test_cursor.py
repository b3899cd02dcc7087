"""Cursor: entries that deny, and commands and hosts that none allows."""

from __future__ import annotations

import json

import pytest

from guardagent.translation.imports.cursor import FORMAT
from guardagent.translation.imports.report import NO_OPTIONS, ImportReport

pytest.importorskip("tree_sitter_bash")
Calls = list[tuple[str, str, str, str]]

# The entries that allow and deny, and calls with the decision on them.
FILES: dict[str, tuple[list[str], list[str], Calls]] = {
    "a program": (
        ["Shell(git)"],
        [],
        [("Shell", "command", "git push", "allow"), ("Shell", "command", "git log; rm x", "escalate")],
    ),
    "arguments": (
        ["Shell(npm:run test)"],
        [],
        [("Shell", "command", "npm test", "allow"), ("Shell", "command", "npm run x", "escalate")],
    ),
    "deny comes first": (
        ["Shell(git)"],
        ["Shell(git:push*)"],
        [("Shell", "command", "git push x", "deny"), ("Shell", "command", "git log", "allow")],
    ),
    "every command": (
        ["Shell(**)"],
        ["Shell(rm)"],
        [("Shell", "command", "make", "allow"), ("Shell", "command", "ls; rm x", "deny")],
    ),
    "a file": (
        [],
        ["Read(.env*)"],
        [
            ("Read", "path", "/a/.env.local", "deny"),
            ("Read", "target_file", "/a/x", "allow"),
            ("Shell", "command", "cat .env", "deny"),
        ],
    ),
    "files": (
        [],
        ["Write(**/*.key)"],
        [
            ("Write", "file_path", "/a/b.key", "deny"),
            ("Delete", "path", "/b.key", "deny"),
            ("Write", "path", "/a", "allow"),
        ],
    ),
    "an absolute path": (
        [],
        ["Read(/etc/**)"],
        [("Read", "path", "/etc/passwd", "deny"), ("Read", "path", "/a/etc/x", "allow")],
    ),
    "a host": (
        ["WebFetch(docs.python.org)"],
        ["WebFetch(*.evil.com)"],
        [
            ("WebFetch", "url", "https://docs.python.org/3", "allow"),
            ("WebFetch", "url", "https://a.evil.com", "deny"),
            ("WebFetch", "url", "https://x.io", "escalate"),
        ],
    ),
    "every host": (["WebFetch(*)"], [], [("WebFetch", "url", "https://x.io", "allow")]),
    "a server": (
        ["Mcp(db:*)"],
        ["Mcp(db:drop)"],
        [("MCP:drop", "x", "", "deny"), ("mcp__db__drop", "x", "", "deny"), ("MCP:read", "x", "", "allow")],
    ),
}


def read(allow: list[str], deny: list[str]) -> ImportReport:
    return FORMAT.read(json.dumps({"permissions": {"allow": allow, "deny": deny}}, indent=1), "cli.json", NO_OPTIONS)


@pytest.mark.parametrize(("allow", "deny", "calls"), FILES.values(), ids=list(FILES))
def test_a_file_decides_as_documented(allow: list[str], deny: list[str], calls: Calls) -> None:
    """Each entry is a row of the report."""
    report = read(allow, deny)
    policies = report.load()
    assert [(*call[:3], str(policies.session().check(call[0], {call[1]: call[2]}).decision)) for call in calls] == calls
    assert [rule.source for rule in report.rules] == [
        *(f"deny: {entry}" for entry in deny),
        *(f"allow: {entry}" for entry in allow),
    ]
    assert report.settled


def test_nothing_is_dropped() -> None:
    """An entry that denies and cannot be translated concerns its whole kind."""
    report = read(["Shell(a b*c)", "Bash(ls)"], ["Read([ab])"])
    assert [rule.status for rule in report.rules] == ["not translated"] * 3
    assert report.load().session().check("Read", {"path": "/x"}).label == 1
