"""The permissions of Cursor's command line, `.cursor/cli.json`, by its page "Permissions" as of November 2026."""

from __future__ import annotations

import re

from guardagent.translation.imports import permissions as lists
from guardagent.translation.imports.cedar_syntax import escaped
from guardagent.translation.imports.claude_code import LIMIT
from guardagent.translation.imports.report import ImportOptions, ImportReport, RuleFormat, differences

COMMANDS = lists.CallKind("commands", ((("Shell",), "command"),), is_shell=True)
_PATHS = ("file_path", "path", "target_file")
READS = lists.CallKind("reads", tuple((("Read", "Grep"), name) for name in _PATHS))
WRITES = lists.CallKind("writes", tuple((("Write", "Edit", "Delete"), name) for name in _PATHS))
FETCHES = lists.CallKind("fetches", ((("WebFetch",), "url"),))
SERVERS = lists.CallKind("servers", tool_pattern="(?:MCP:|mcp__)(?s:.*)")
_KINDS = {"Shell": COMMANDS, "Read": READS, "Write": WRITES, "WebFetch": FETCHES, "Mcp": SERVERS}
_ENTRY = re.compile(r"(Shell|Read|Write|WebFetch|Mcp)\((.*)\)", re.DOTALL)
EVERYWHERE = differences(
    stricter=(
        "a command counts by its words and its program's name; each command of a text needs an entry",
        "a redirection, a variable before a command, and `cd` out of the folder or before `git` are asked about",
    ),
    wider=(
        "what `env`, `setsid` or `bash -c` runs counts as if it ran itself",
        "reads, writes and tools of servers that no entry denies are left to the host",
    ),
)


def _read(text: str, name: str, _: ImportOptions) -> ImportReport:
    entries = lists.read_settings(text, name, ("deny", "allow"))[1]
    rest = [lists.Rest(COMMANDS, limit=LIMIT), lists.Rest(FETCHES)]
    language = ("Cursor", 'Cursor CLI, "Permissions", November 2026')
    return lists.permission_report(language, name, list(map(_permission, entries)), rest, EVERYWHERE)


def _permission(entry: lists.ListEntry) -> lists.ListedPermission:
    match = _ENTRY.fullmatch(entry.text.strip())
    if match is None:
        reason = "it is not Shell, Read, Write, WebFetch or Mcp with a text; it has no effect"
        return lists.ListedPermission(*entry, differences=(("not translated", reason),))
    kind = _KINDS[match[1]]
    return lists.ListedPermission.of(entry, lists.Concern(kind), lambda: _concerns(kind, match[2], entry.decision))


def _concerns(kind: lists.CallKind, text: str, decision: lists.Decision) -> lists.Translated:
    if decision == "allow" and kind in (READS, WRITES, SERVERS):
        return [], [("same", "no rule here asks about it")]
    if text in ("*", "**"):
        return [lists.Concern(kind)], []
    if kind is COMMANDS:
        program, _, arguments = text.partition(":")
        return [
            lists.Concern(kind, lists.command_test(f"{program} {arguments or '*'}", is_allowed=decision == "allow"))
        ], []
    if kind is FETCHES:
        return [lists.Concern(kind, lists.domain_test(text, is_allowed=decision == "allow"))], []
    if kind is SERVERS:  # the name that the hook has may lack the server
        tool = ".*".join(map(escaped, text.rpartition(":")[2].split("*")))
        return [lists.Concern(kind, tools=(rf"(?s:(?:MCP:|mcp__)(?:.*[:_])?{tool})",))], []
    test = lists.path_test(f"/{text}" if text.startswith("/") else text, "", is_allowed=False)
    return [lists.Concern(kind, test), lists.Concern(COMMANDS, test, is_file=True)], []


FORMAT = RuleFormat("Cursor", (".cursor/cli*.json",), _read)
