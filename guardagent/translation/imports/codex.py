"""The rules of Codex CLI: `prefix_rule` in `.codex/rules/*.rules`, by its page "Rules" as of November 2026 (0.153)."""

from __future__ import annotations

import ast
import shlex
from dataclasses import replace
from itertools import product
from typing import Any

from guardagent.errors import ContentError
from guardagent.translation.imports import permissions as lists
from guardagent.translation.imports.cedar_conditions import UntranslatableError, joined
from guardagent.translation.imports.report import ImportOptions, ImportReport, RuleFormat, differences

COMMANDS = lists.CallKind(
    "commands", ((("Bash", "shell", "local_shell"), "command"), (("exec_command",), "cmd")), is_shell=True
)
_DECISIONS: dict[Any, lists.Decision] = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
MAX_PREFIXES = 64
EVERYWHERE = differences(
    stricter=(
        "a prefix counts for each command of a script, also with redirections, by path and behind wrappers",
        "a command that cannot be read exactly is asked about if a rule asks or forbids",
    ),
    wider=("the sandbox, and commands that no rule names, are left to the host",),
)


def _read(text: str, name: str, _: ImportOptions) -> ImportReport:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        why = getattr(error, "msg", error)
        raise ContentError(f"is not a file of rules: {why}; expected prefix_rule(...)", name, line) from None
    entries = [_permission(statement, text) for statement in tree.body]
    rest = [lists.Rest(COMMANDS, always="true")]
    return lists.permission_report(("Codex CLI", 'Codex CLI 0.153, "Rules"'), name, entries, rest, EVERYWHERE)


def _permission(statement: ast.stmt, text: str) -> lists.ListedPermission:
    source = " ".join((ast.get_source_segment(text, statement) or "").split())
    match statement:
        case ast.Expr(ast.Call(ast.Name("prefix_rule"), [], keywords)):
            try:
                values = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in keywords}
                entry = lists.ListEntry(statement.lineno, source, _DECISIONS[values.get("decision", "allow")])
                choices = [_words(words) for words in _items(values["pattern"])]
            except (ValueError, KeyError, TypeError):
                pass
            else:
                permission = lists.ListedPermission.of(
                    entry, lists.Concern(COMMANDS), lambda: _prefixes(choices, entry.decision)
                )
                return replace(permission, message=str(values.get("justification", "")))
    reason = "it is not a prefix_rule with a pattern of strings, and a known decision"
    return lists.ListedPermission(statement.lineno, source, "allow", differences=(("not translated", reason),))


def _items(values: object) -> list[Any]:
    """The items of a list; a string is none, though Python would give its letters."""
    if not isinstance(values, list | tuple):
        raise TypeError(values)
    return list(values)


def _words(words: object) -> list[str]:
    choices = [words] if isinstance(words, str) else _items(words)
    if not choices or not all(isinstance(word, str) for word in choices):
        raise TypeError(words)
    return choices


def _prefixes(choices: list[list[str]], decision: lists.Decision) -> lists.Translated:
    if decision == "allow":
        return [], [("same", "no rule here asks about it")]
    vectors = list(product(*choices))
    if len(vectors) > MAX_PREFIXES or any("*" in word for vector in vectors for word in vector):
        raise UntranslatableError("a pattern with a star, or with this many choices,")
    tests = [lists.command_test(f"{shlex.join(vector)} *", is_allowed=False) for vector in vectors]
    return [lists.Concern(COMMANDS, joined(tests, "||"))], []


FORMAT = RuleFormat("Codex CLI", ("*.rules",), _read)
