"""The permissions of Claude Code, by its page "Configure permissions" as of November 2026 (2.1.332).

The order is deny, ask, allow. A rule of a command concerns each command of a text, and a text is allowed if each of
them is. Calls that no entry allows are asked about, unless they only read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from guardagent.translation.imports import permissions as lists
from guardagent.translation.imports.cedar_conditions import UntranslatableError
from guardagent.translation.imports.cedar_syntax import escaped
from guardagent.translation.imports.report import (
    Difference,
    ImportedRule,
    ImportOptions,
    ImportReport,
    RuleFormat,
    differences,
)

COMMANDS = lists.CallKind("commands", ((("Bash", "Monitor"), "command"),), is_shell=True)
READS = lists.CallKind("reads", ((("Read",), "file_path"), (("Grep", "Glob"), "path")))
EDITS = lists.CallKind("edits", ((("Edit", "MultiEdit", "Write"), "file_path"), (("NotebookEdit",), "notebook_path")))
FETCHES = lists.CallKind("fetches", ((("WebFetch",), "url"),))
SEARCHES = lists.CallKind("searches", ((("WebSearch",), "query"),))
AGENTS = lists.CallKind("agents", ((("Agent", "Task"), "subagent_type"),))
SKILLS = lists.CallKind("skills", ((("Skill",), "skill"),))
SERVERS = lists.CallKind("servers", tool_pattern="mcp__(?s:.*)")
_KINDS = (COMMANDS, READS, EDITS, FETCHES, SEARCHES, AGENTS, SKILLS)
_BY_TOOL = {tool: kind for kind in _KINDS for tools, _ in kind.places for tool in tools}
_ENTRY = re.compile(r"(?P<tool>[\w*-]+)(?:\((?P<text>.*)\))?", re.DOTALL)
# Programs that only read whatever their options are, of those that the page names; `find` without what runs or writes.
_FIND_READS = r"!any(w in x.argv, w matches /-(?:exec|ok|delete|fprint|fls)(?s:.*)/)"
READS_ONLY = (
    '(x.argv[0] in ["ls", "cat", "echo", "pwd", "head", "tail", "grep", "wc", "which", "diff", "stat", "du"]'
    f' || x.argv[0] == "find" && {_FIND_READS})'
)
LIMIT = (
    "x.writes == [] && x.reads == [] && keys(x.env) == [] && !(x.cwd matches /(?s:(?:\\/|~|\\.\\.).*)/)"
    ' && (x.name != "git" || x.cwd == ".")'
)
EVERYWHERE = differences(
    stricter=(
        "a command counts by its words, also by path and in `bash -c`; the host compares its text",
        "a redirection, a variable before a command, and `cd` out of the folder or before `git` are asked about",
        "a command that another one runs, such as behind `sudo`, `xargs` or `npx`, needs an entry of its own",
        "the forms of `git` that only read are asked about without an entry",
        "a command of which a word is only known when it runs is asked about",
    ),
    wider=(
        "what `env`, `setsid`, `ionice`, `exec` or `bash -c` runs counts as if it ran itself; the host asks",
        "a text that may hide a command is asked about as a whole, also where the host denies a part of it",
        "quotes and spaces do not count; the host compares them",
        "files in a command are compared as they are written: also a pattern such as `.e*`, or after `cd`",
        "reads outside of the working folder, and edits of protected folders, are left to the host",
        "a path counts by the file that it leads to; the host also denies by the link",
    ),
)
_MODES = ("default", "manual", "acceptEdits", "dontAsk")
_LISTS: tuple[lists.Decision, ...] = ("deny", "ask", "allow")
_NO_PREFIX = frozenset(("watch", "setsid", "ionice", "flock"))


def _read(text: str, name: str, options: ImportOptions) -> ImportReport:
    settings, entries = lists.read_settings(text, name, _LISTS)
    mode = settings.get("permissions", {}).get("defaultMode")
    decision: lists.Decision = "deny" if mode == "dontAsk" else "ask"
    kinds = (FETCHES, SEARCHES, SERVERS, *(() if mode == "acceptEdits" else (EDITS,)))
    rest = [
        lists.Rest(COMMANDS, decision, READS_ONLY, LIMIT),
        *(lists.Rest(kind, decision) for kind in kinds),
    ]
    listed = [_permission(entry, options.project) for entry in entries]
    language = ("Claude Code", 'Claude Code 2.1.332, "Configure permissions"')
    report = lists.permission_report(language, name, listed, rest, EVERYWHERE)
    rows = sorted([*report.rules, *_others(settings, text)], key=attrgetter("line"))
    return replace(report, rules=tuple(rows))


def _others(settings: Mapping[str, Any], text: str) -> Iterator[ImportedRule]:
    """The rows of other settings about permissions."""
    values = {key: value for key, value in settings.get("permissions", {}).items() if key not in _LISTS}
    for key, value in (values | {key: ... for key in ("sandbox",) if key in settings}).items():
        difference: Difference = ("not translated", "it stays in force in the host alone")
        if key == "defaultMode":
            difference = ("same" if value in _MODES else "stricter", "other modes count as `default`")
        source = key if value is ... else f"{key}: {json.dumps(value)}"
        yield ImportedRule(lists.line_of(text, key), source, (), "", (difference,))


def _permission(entry: lists.ListEntry, root: str) -> lists.ListedPermission:
    match = _ENTRY.fullmatch(entry.text.strip())
    if match is None:
        reason = "it is not `Tool` or `Tool(text)`; it has no effect"
        return lists.ListedPermission(*entry, differences=(("not translated", reason),))
    tool, text = match["tool"], None if match["text"] in ("", "*") else match["text"]
    return lists.ListedPermission.of(entry, _whole(tool), lambda: _concerns(tool, text, entry.decision, root))


def _whole(tool: str) -> lists.Concern:
    kind = _BY_TOOL.get(tool)
    if kind is not None:
        return lists.Concern(kind, tools=() if tool == kind.places[0][0][0] else (tool,))
    if tool.startswith("mcp__"):
        inner = "(?:__.*)?" if tool.count("__") == 1 else ""
        return lists.Concern(SERVERS, tools=(f"(?s:{_glob(tool)}{inner})",))
    return lists.Concern(lists.CallKind("tools", tool_pattern=f"(?s:{_glob(tool)})"))


def _glob(text: str) -> str:
    return ".*".join(map(escaped, text.split("*")))


def _concerns(tool: str, text: str | None, decision: lists.Decision, root: str) -> lists.Translated:
    kind = _BY_TOOL.get(tool)
    if decision == "allow" and "*" in tool and not re.match("mcp__[^*]+__", tool):
        raise UntranslatableError("a star in the name of a tool, which the host does not take,")
    if text is None:
        return [_whole(tool)], []
    if kind is None or kind is SEARCHES:
        raise UntranslatableError(f"'{tool}' with a text in parentheses")
    if kind is COMMANDS:
        return [lists.Concern(COMMANDS, _command(text, decision))], []
    if kind is FETCHES:
        if not text.startswith("domain:"):
            raise UntranslatableError("a text that is not 'domain:HOST'")
        host = text.removeprefix("domain:")
        return [lists.Concern(FETCHES, lists.domain_test(host, is_allowed=decision == "allow"))], []
    if kind in (AGENTS, SKILLS):
        return [lists.Concern(kind, f"x matches /(?s:{_glob(re.sub(r'(:| )[*]$', '*', text))})/")], []
    return _paths(tool, kind, text, decision, root)


def _command(text: str, decision: lists.Decision) -> str:
    text = re.sub(r":\*$", " *", text)
    program, is_prefix = text.split(maxsplit=1)[0], text.endswith("*")
    if decision == "allow" and is_prefix and program in _NO_PREFIX:
        raise UntranslatableError(f"a prefix of '{program}', which the host does not take,")
    test = lists.command_test(text, is_allowed=decision == "allow")
    return f"{test} && {_FIND_READS}" if decision == "allow" and is_prefix and program == "find" else test


def _paths(tool: str, kind: lists.CallKind, text: str, decision: lists.Decision, root: str) -> lists.Translated:
    rule = f"{'Read' if kind is READS else 'Edit'}({text})"
    unused = f"the host does not consult it; here it counts as {rule}"
    if decision == "allow" and tool == "Edit":
        return [lists.Concern(EDITS, lists.path_test(text, root, is_allowed=True))], []
    if decision == "allow":
        return [], [("same", "no rule here asks about reads, and the host consults no such entry for other tools")]
    test = lists.path_test(text, root, is_allowed=False)
    where = "" if text.startswith(("//", "~/")) else ", in every folder"
    edits = [lists.Concern(EDITS, test, ("Edit", "MultiEdit", "Write"))] if kind is READS else []
    reasons = [f"each command that names the file counts{where}", *([] if tool in ("Read", "Edit") else [unused])]
    return [lists.Concern(kind, test), *edits, lists.Concern(COMMANDS, test, is_file=True)], differences(
        stricter=reasons
    )


FORMAT = RuleFormat("Claude Code", (".claude/settings*.json",), _read)
