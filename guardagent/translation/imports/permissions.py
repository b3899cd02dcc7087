"""Lists of permissions, as coding agents have them: entries that allow, ask or deny, and a default for the rest.

An entry that asks or denies becomes a rule. Entries that allow are in the rule that asks about the rest of their kind
of call. A call that cannot be read, such as a command with a variable in it, is asked about by that rule, not denied.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from guardagent._support.files import parse_json
from guardagent.errors import ContentError
from guardagent.packs.shell.command_lists import SHORT_FORMS
from guardagent.translation.imports.cedar import pattern
from guardagent.translation.imports.cedar_conditions import UntranslatableError, joined, quoted
from guardagent.translation.imports.cedar_syntax import escaped
from guardagent.translation.imports.report import Difference, ImportedRule, ImportReport

Decision = Literal["allow", "ask", "deny"]
Differences = Sequence[Difference]
VIOLATIONS = {"ask": "escalate", "deny": "block"}
_HOME = r"(?:~|\/root|\/(?:home|Users)\/[^\/]+)"


@dataclass(frozen=True, slots=True)
class CallKind:
    """A kind of calls.

    Attributes:
        name: its name.
        places: the tools, and the argument that tests are about.
        is_shell: whether that argument is a shell text, and tests are about its commands.
        tool_pattern: a regular expression of the tools, in place of `places`.
    """

    name: str
    places: tuple[tuple[tuple[str, ...], str], ...] = ()
    is_shell: bool = False
    tool_pattern: str = ""


@dataclass(frozen=True, slots=True)
class Concern:
    """The calls that an entry concerns.

    Attributes:
        kind: their kind.
        test: the condition on a value, or a command, `x`; empty if all calls of the kind pass it.
        tools: the only tools of the kind that it concerns; empty for all. For a kind with a pattern, another pattern.
        is_file: whether the test is of the files that a command names.
    """

    kind: CallKind
    test: str = ""
    tools: tuple[str, ...] = ()
    is_file: bool = False


Translated = tuple[Sequence[Concern], Differences]


@dataclass(frozen=True, slots=True)
class ListedPermission:
    """An entry of a list.

    Attributes:
        line: its line.
        source: its text.
        decision: the list.
        concerns: the calls that it concerns; none if it has no effect.
        differences: how the translation differs.
        message: the reason, for the agent.
    """

    line: int
    source: str
    decision: Decision
    concerns: tuple[Concern, ...] = ()
    differences: tuple[Difference, ...] = ()
    message: str = ""

    @classmethod
    def of(cls, entry: ListEntry, whole: Concern, write: Callable[[], Translated]) -> ListedPermission:
        """Translates an entry; one that cannot be translated asks or denies for all calls of its kind."""
        try:
            concerns, differences = write()
        except UntranslatableError as error:
            concerns = () if entry.decision == "allow" else (whole,)
            outcome = "it does not allow" if entry.decision == "allow" else "it concerns every call of its kind"
            differences = (("not translated", f"{error} cannot be translated: {outcome}"),)
        return cls(entry.line, entry.text, entry.decision, tuple(concerns), tuple(differences))


class ListEntry(NamedTuple):
    """An entry of a list as it is written."""

    line: int
    text: str
    decision: Decision


def permission_report(
    language: tuple[str, str],
    name: str,
    entries: Sequence[ListedPermission],
    rest: Sequence[Rest],
    everywhere: Differences,
) -> ImportReport:
    """Translates lists of permissions of a language, which its documentation follows."""
    policy = PermissionPolicy(entries, rest)
    return ImportReport(*language, name, policy.content, tuple(policy.rows), tuple(everywhere))


def read_settings(text: str, name: str, lists: Sequence[Decision]) -> tuple[dict[str, Any], list[ListEntry]]:
    """Returns the settings of a JSON file, and the entries of lists under `permissions`.

    Raises:
        ContentError: it is not JSON, or has something else there.
    """
    settings = parse_json(text, name)
    permissions = settings.get("permissions", {}) if isinstance(settings, dict) else None
    if not isinstance(permissions, dict):
        raise ContentError("expected a mapping, with one under 'permissions'", name)
    entries = []
    for key in lists:
        listed = permissions.get(key, [])
        if not isinstance(listed, list) or not all(isinstance(entry, str) for entry in listed):
            raise ContentError(f"permissions.{key}: expected a list of strings", name)
        entries += [ListEntry(line_of(text, entry), entry, key) for entry in listed]
    return settings, entries


def line_of(text: str, value: str) -> int:
    """The line of a string in a JSON file."""
    return text.count("\n", 0, max(text.find(json.dumps(value, ensure_ascii=False)), 0)) + 1


@dataclass(frozen=True, slots=True)
class Rest:
    """The calls of a kind that no entry allows.

    Attributes:
        kind: the kind.
        decision: the decision on them.
        always: the condition on a value, or a command, `x` that is allowed anyway; empty if there is none.
        limit: a condition on each `x` that an entry or `always` allows; empty if there is none.
    """

    kind: CallKind
    decision: Decision = "ask"
    always: str = ""
    limit: str = ""


class PermissionPolicy:
    """The content of a policy from lists of permissions, and the rows of the report."""

    def __init__(self, permissions: Sequence[ListedPermission], rest: Sequence[Rest]) -> None:
        self._rest, self.rows = rest, list[ImportedRule]()
        named = [(f"{entry.decision}_{number}", entry) for number, entry in enumerate(permissions, 1)]
        self._concerns = [
            (entry, concern, f"{name}_commands" if concern.is_file else name)
            for name, entry in named
            for concern in entry.concerns
        ]
        self._definitions: dict[str, str] = {}
        policies = [rule for name, entry in named for rule in self._of_entry(entry, name)]
        policies += [rule for part in rest for rule in self._of_rest(part)]
        defined = {"define": self._definitions} if self._definitions else {}
        self.content = {"version": 1, "unlisted": "allow", **defined, "policies": policies}

    def _of_entry(self, entry: ListedPermission, name: str) -> Iterator[dict[str, Any]]:
        rules = []
        for _, concern, test in [row for row in self._concerns if row[0] is entry]:
            self._define(entry, concern, name, test)
            for tools, value in _places(concern) if entry.decision != "allow" else ():
                # An unknown test is asked about by the rule on the rest.
                denied = self._denied(concern.kind, value) if entry.decision == "ask" else ""
                rules.append(f"forall(c:{tools}(), {denied}{_unless(test, value, concern)})")
        kinds = [concern.kind for concern in entry.concerns]
        ids = (
            (name,)
            if rules
            else tuple(f"{rest.decision}_{rest.kind.name}" for rest in self._rest if rest.kind in kinds)
        )
        text = "; ".join(dict.fromkeys(concern.test or _is_tool(concern) for concern in entry.concerns))
        self.rows.append(ImportedRule(entry.line, f"{entry.decision}: {entry.source}", ids, text, entry.differences))
        if rules:
            verb = "deny" if entry.decision == "deny" else "ask about"
            yield _rule(name, rules, entry.message or f"The permissions {verb} {entry.source}.", entry.decision)

    def _define(self, entry: ListedPermission, concern: Concern, name: str, test: str) -> None:
        is_list = concern.kind.is_shell and entry.decision != "allow"
        names = f"any(w in x.reads, {name}(w)) || any(w in x.writes, {name}(w))"
        names += f' || !(x.name in ["echo", "printf"]) && any(w in x.argv, {name}(w))'
        if concern.test and is_list:
            condition = names if concern.is_file else concern.test
            self._definitions[f"{test}(value)"] = f"any(x in commands(value), {condition})"
        if concern.test and (concern.is_file or not is_list):
            self._definitions[f"{name}(x)"] = concern.test

    def _denied(self, kind: CallKind, value: str) -> str:
        """The condition that an entry denies the call, which nobody is asked about then."""
        rows = [row for row in self._concerns if row[0].decision == "deny" and row[1].kind == kind]
        tests = (f"known({test}({value})) && {test}({value})" if row.test else _is_tool(row) for _, row, test in rows)
        return "".join(f"{test} || " for test in tests)

    def _of_rest(self, rest: Rest) -> Iterator[dict[str, Any]]:
        rows = [row for row in self._concerns if row[1].kind == rest.kind]
        allowing = [rest.always] if rest.always else []
        allowing += [_allows(concern, test) for entry, concern, test in rows if entry.decision == "allow"]
        readable = [test for entry, concern, test in rows if entry.decision != "allow" and concern.test]
        is_open, name = "true" in allowing, f"{rest.decision}_{rest.kind.name}"
        allowed = joined(allowing, "||") if allowing else "false"
        allowed = f"{rest.limit} && {allowed}" if rest.limit and allowing else allowed
        if allowing and not is_open and not rest.kind.tool_pattern:
            text = f"all(x in commands(value), {allowed})" if rest.kind.is_shell else allowed
            self._definitions[f"allowed_{rest.kind.name}({'value' if rest.kind.is_shell else 'x'})"] = text
        rules = []
        for tools, value in _places(Concern(rest.kind)):
            call = f"allowed_{rest.kind.name}({value})"
            tests = [f"known({test}({value}))" for test in readable] if allowing else ["false"]
            if rest.kind.tool_pattern:
                tests = [f"!(tool(c) matches /{rest.kind.tool_pattern}/) || {allowed}"]
            elif allowing and not is_open:
                tests.append(f"known({call}) && {call}")
            rules.append(f"forall(c:{tools}(), {self._denied(rest.kind, value)}{' && '.join(tests)})")
        message = "This call cannot be read exactly." if is_open else "No entry of the permissions allows this call."
        if readable or not is_open:
            yield _rule(name, rules, message, rest.decision)


def _allows(concern: Concern, test: str) -> str:
    if concern.tools:
        return _is_tool(concern)
    return f"{test}(x)" if concern.test else "true"


def _unless(test: str, value: str, concern: Concern) -> str:
    if concern.kind.tool_pattern:
        return f"!({_is_tool(concern)})"
    call = f"{test}({value})"
    return f"!known({call}) || !{call}" if concern.test else "false"


def _is_tool(concern: Concern) -> str:
    if concern.kind.tool_pattern:
        return f"tool(c) matches /{concern.tools[0] if concern.tools else concern.kind.tool_pattern}/"
    tools = concern.tools or tuple(tool for tools, _ in concern.kind.places for tool in tools)
    return f"tool(c) in [{', '.join(map(quoted, tools))}]"


def _places(concern: Concern) -> Iterator[tuple[str, str]]:
    """The tools of the calls as a pattern, and the term of the value."""
    if concern.kind.tool_pattern:
        yield "*", ""
    for tools, argument in concern.kind.places:
        kept = tuple(tool for tool in tools if not concern.tools or tool in concern.tools)
        if kept:
            yield pattern(kept), f"args(c).{argument}"


def _rule(name: str, rules: list[str], message: str, decision: Decision) -> dict[str, Any]:
    return {"id": name, "temporal": " AND ".join(rules), "message": message, "on_violation": VIOLATIONS[decision]}


# --- patterns of commands, paths and hosts as tests of `x`


def command_test(text: str, *, is_allowed: bool) -> str:
    """Returns the test of a command by a pattern, in which `*` stands for any text.

    Args:
        text: the pattern; a last ` *` also stands for nothing.
        is_allowed: whether the test allows. Then the program is compared as it is written, otherwise by its name.

    Raises:
        UntranslatableError: a word of the pattern has a `*` before its end, or several words may be anywhere.
    """
    words = _words(text)
    first = next((at for at, word in enumerate(words) if "*" in word), len(words))
    tests = [_prefix(vector, is_allowed=is_allowed) for vector in _forms(words[:first])] if first else []
    rest = words[first:]
    if not rest:
        return joined([f"{test}{' && ' * bool(test)}len(x.argv) == {length}" for test, length in tests], "||")
    if not tests and rest == ["*"]:
        raise UntranslatableError("a pattern without a word")
    begins = joined([test for test, _ in tests], "||") if tests else ""
    ends = _rest_of_pattern(rest, first)
    return " && ".join(filter(None, (begins, ends))) or "true"


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise UntranslatableError(f"the quotes of {text!r}") from None


def _forms(words: list[str]) -> list[list[str]]:
    """The words as `commands` lists them, which has short forms such as `npm test` for `npm run test`."""
    short = [list(form) for long, form in SHORT_FORMS.items() if list(long[: len(words)]) == words and len(words) > 1]
    whole = next((form for long, form in SHORT_FORMS.items() if list(long) == words[:3]), None)
    return [[*whole, *words[3:]]] if whole else [words, *(form for form in short if form[: len(words)] != words)]


def _prefix(words: list[str], *, is_allowed: bool) -> tuple[str, int]:
    listed = f"[{', '.join(map(quoted, words))}]"
    if is_allowed:
        return f"x.argv[0:{len(words)}] == {listed}", len(words)
    rest = f" && x.argv[1:{len(words)}] == [{', '.join(map(quoted, words[1:]))}]" if words[1:] else ""
    return f"x.name == {quoted(words[0])}{rest}", len(words)


def _rest_of_pattern(rest: list[str], at: int) -> str:
    if rest == ["*"]:
        return ""
    if len(rest) == 1 and rest[0].count("*") == 1 and rest[0].endswith("*"):  # the rest of the text is free
        return f"x.argv[{at}] matches /(?s:{escaped(rest[0][:-1])}.*)/"
    if rest[0] == "*" and not any("*" in word for word in rest[1:]):
        ending = f"[{', '.join(map(quoted, rest[1:]))}]"
        return f"x.argv[-{len(rest) - 1}:] == {ending} && len(x.argv) > {at + len(rest) - 1}"
    raise UntranslatableError(f"the pattern {' '.join(rest)!r}")


def path_test(text: str, root: str, *, is_allowed: bool) -> str:
    """Returns the test of a path by a pattern of gitignore with an anchor.

    Args:
        text: the pattern: `//` begins at the root of the file system, `~/` at home, others in the project.
        root: the absolute folder of the project; empty if it is not known.
        is_allowed: whether the test allows. Otherwise a pattern of the project counts in every folder.

    Raises:
        UntranslatableError: the pattern has a class of characters, or is an exception; or it allows without a folder.
    """
    if text.startswith("!") or set(text) & set("[]\\{}"):
        raise UntranslatableError(f"the pattern {text!r}")
    if text.startswith("//"):
        anchor, body = r"\/", text[2:]
    elif text.startswith("~/"):
        anchor, body = rf"{_HOME}\/", text[2:]
    else:
        body = text.removeprefix("./").removeprefix("/")
        anchor = rf"(?:{escaped(root.rstrip('/'))}\/)" if is_allowed else r"(?:.*\/)?"
        if is_allowed and not root:
            raise UntranslatableError("a pattern of the project without '--project'")
        if "/" not in text.rstrip("/"):
            anchor += r"(?:.*\/)?" * is_allowed
    # A pattern of a folder concerns the files in it. In a command the file may be the value of an option.
    inside = "" if is_allowed or body.endswith(("/", "**")) else r"(?:\/.*)?"
    option = "" if is_allowed else r"(?:[\w-]+=)?"
    return f"x matches /(?s:{option}{anchor}{_glob(body)}{inside})/"


def _glob(body: str) -> str:
    body = f"{body}**" if body.endswith("/") else body
    pieces = {"**/": r"(?:.*\/)?", "**": ".*", "*": r"[^\/]*", "?": r"[^\/]"}
    text, at = "", 0
    while at < len(body):
        piece = next((piece for piece in pieces if body.startswith(piece, at)), body[at])
        text += pieces.get(piece) or escaped(piece)
        at += len(piece)
    return text


def domain_test(text: str, *, is_allowed: bool) -> str:
    """Returns the test of a URL by its host; `*.` stands for the names below it."""
    if text == "*":
        return "known(x)"
    host = escaped(text.lower().removeprefix("*."))
    below = r"(?:[^\/@?#]+\.)" if text.startswith("*.") else ""
    user = "" if is_allowed else r"(?:[^\/?#]*@)?"
    test = f"(i in links(x), i matches /(?s:https?:\\/\\/{user}{below}{host}(?::[0-9]+)?(?:[\\/?#].*)?)/)"
    return f"len(links(x)) == 1 && all{test}" if is_allowed else f"any{test}"
