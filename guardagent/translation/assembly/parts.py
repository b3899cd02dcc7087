"""A draft in the assembly: its rules, its declarations one by one, and the names in both.

The grammar decides which words in a rule are names, so that they can be replaced. A name that several drafts declare
with different meanings gets another name in the later draft.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal

from guardagent.policy.file.constants import RESERVED
from guardagent.policy.language.grammar import Node, TemporalError, tree_of
from guardagent.translation.drafts import DECLARATIONS, Draft, Problem, RuleDraft

# --- names in rules

Role = Literal["value", "bound", "tag", "counter", "label"]
Start = Literal["start", "condition"]


NameUse = tuple[Role, str, int]
"""A name at a place of a text: its role, itself, and its offset.

A `value` is a constant, a definition or a variable; `bound` is a variable or the label of a call where it is bound.
Every string is also a `label`, since rules name the sources of values in strings.
"""


def names_in(text: str, start: Start = "start") -> tuple[NameUse, ...]:
    """Returns the names in a rule, or in a condition.

    Raises:
        TemporalError: the text does not parse.
    """
    tree = tree_of(text, start)
    lines = [0, *(found.end() for found in re.finditer("\n", text))]
    try:
        return tuple((role, str(one), lines[one.line - 1] + one.column - 1) for role, one in _uses(tree))
    except RecursionError:
        raise TemporalError("the rule is nested too deeply; simplify it", text[:80], 1, 1) from None


def with_name(text: str, start: Start, roles: frozenset[Role], old: str, new: str) -> str:
    """Returns a text with another name at each place that has one of the roles."""
    for role, name, at in sorted(names_in(text, start), key=lambda one: -one[2]):
        if role in roles and name == old:
            text = text[:at] + new + text[at + len(old) :]
    return text


def _uses(node: Node) -> Iterator[tuple[Role, Any]]:  # noqa: C901 - a case for each kind
    inner = node.children
    match node.data:
        case "group" | "tagged":
            yield "tag", inner[0]
        case "variable":
            yield "value", inner[0]
        case "label" | "count_items":
            yield "bound", inner[0]
        case "quantified":
            yield "bound", inner[1]
        case "pattern" if inner[0] is not None:
            yield "bound", inner[0]
        case "argument" if inner[1].data == "variable":
            yield "bound", inner[1].children[0]
            return
        case "flow_labels":
            yield from (("label", one) for one in inner)
        case "text":
            yield "label", _inside(inner[0])
        case "apply":
            inner = yield from _applied(*inner)
    for child in inner:
        if isinstance(child, Node):
            yield from _uses(child)


def _applied(name: Any, *operands: Any) -> Any:
    """Yields the names of `name(...)`; returns the operands that are values."""
    words = {"counter": operands[:1], "seen": operands}.get(str(name), ())
    if not all(isinstance(one, Node) and one.data == "variable" for one in words):
        words = ()
    if not words:
        yield "value", name
    yield from (("counter" if name == "counter" else "label", one.children[0]) for one in words)
    return operands[len(words) :]


def _inside(token: Any) -> Any:
    """A string without its quotes."""
    inside = type(token)(token[1:-1])
    inside.line, inside.column = token.line, token.column + 1
    return inside


# --- declarations

Change = Callable[[str, Start], str]
DeclaredName = tuple[Role, str]
"""The namespace of a declaration, and its name. Constants and definitions share one."""

_SPACES: Mapping[str, Role] = {
    "tags": "tag",
    "labels": "label",
    "counters": "counter",
    "constants": "value",
    "define": "value",
}
_ROLES: Mapping[Role, frozenset[Role]] = {"value": frozenset(["value", "bound"])}
_PATTERN = ("forall(", "\n, true)")  # reads a pattern as the language does


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declared name.

    Attributes:
        section: the key of the policy file.
        parameters: those of a definition.
        key: the name as written, with parameters.
    """

    section: str
    name: str
    value: Any
    parameters: tuple[str, ...] = ()
    key: str = ""

    @property
    def space(self) -> Role:
        return _SPACES[self.section]

    @property
    def meaning(self) -> object:
        """A value that is the same for equal declarations; `1` and `true` are not equal."""
        return self.section, self.parameters, json.dumps(self.value, sort_keys=True)

    def changed(self, change: Change) -> Declaration:
        """This declaration with each of its texts changed."""
        if self.section == "define":
            return replace(self, value=change(self.value, "condition"))
        if self.section != "counters":
            return self
        value = {**self.value, "on": _changed_pattern(self.value["on"], change)}
        for key in ("key", "sum"):
            if key in value:
                value[key] = _each(value[key], lambda one: change(one, "condition"))
        return replace(self, value=value)

    def named(self, name: str, parameters: tuple[str, ...]) -> Declaration:
        """This declaration with another name or other parameters."""
        if (name, parameters) == (self.name, self.parameters):
            return self
        key = f"{name}({', '.join(parameters)})" if parameters else name
        return replace(self, name=name, parameters=parameters, key=key)

    def tags(self) -> Iterator[str]:
        """The tags among the sources of a label, each also without what follows a dot."""
        sources = self.value.get("from", ()) if isinstance(self.value, Mapping) else self.value
        for one in [sources] if isinstance(sources, str) else sources:
            words = one.removeprefix("@").split("[")[0].split(".")
            yield from (".".join(words[:at]) for at in range(1, len(words) + 1) if one.startswith("@"))


def declarations_of(content: Mapping[str, Any]) -> dict[DeclaredName, Declaration]:
    """Returns the declarations of a draft, or of the content of a policy file."""
    found = {}
    for section in DECLARATIONS:
        for key, value in (content.get(section) or {}).items():
            name, _, rest = key.partition("(")
            parameters = tuple(one.strip() for one in rest.strip().removesuffix(")").split(",") if one.strip())
            one = Declaration(section, name.strip(), value, parameters if section == "define" else (), key)
            found[one.space, one.name] = one
    return found


@dataclass(frozen=True, slots=True)
class AssemblyPart:
    """A draft in the assembly."""

    rules: tuple[RuleDraft, ...]
    declared: Mapping[DeclaredName, Declaration]

    @classmethod
    def of(cls, draft: Draft) -> AssemblyPart:
        """The part of a draft, without declarations that its rules do not use."""
        if not draft.rules:
            return cls((), {})
        return cls(draft.rules, used_declarations(declarations_of(draft.declarations), names_of(draft.rules)))

    @property
    def names(self) -> set[str]:
        """All of its names."""
        declared = (key for one in self.declared.values() for key in _names_of_declaration(one))
        return {name for _, name in (*declared, *names_of(self.rules), *self.declared)}

    @property
    def bound(self) -> set[str]:
        """The names of its variables and calls."""
        return {name for role, name in names_of(self.rules) if role == "bound"} | bound_names(self.declared.values())

    def renamed(self, key: DeclaredName, new: str) -> AssemblyPart:
        """This part with another name for a declaration, or for a variable."""
        space, old = key
        roles = _ROLES.get(space, frozenset([space]))

        def change(text: str, start: Start) -> str:
            return with_name(text, start, roles, old, new)

        rules = tuple(replace(one, rule=with_texts(one.rule, change)) for one in self.rules)
        declared = {}
        for there, one in self.declared.items():
            parameters = tuple(new if name == old and space == "value" else name for name in one.parameters)
            found = one.changed(change).named(new if there == key else one.name, parameters)
            declared[found.space, found.name] = found
        return AssemblyPart(rules, declared)


def bound_names(declared: Iterable[Declaration]) -> set[str]:
    """The variables and parameters inside of declarations."""
    found = set()
    for one in declared:
        found |= {name for role, name, _ in _visited_uses(one.changed) if role == "bound"} | set(one.parameters)
    return found


def names_of(rules: Iterable[RuleDraft]) -> set[DeclaredName]:
    """The names that rules use themselves."""
    uses = (one for rule in rules for one in _visited_uses(lambda change: with_texts(rule.rule, change)))  # noqa: B023
    return {(role, name) for role, name, _ in uses}


def used_declarations(
    declared: Mapping[DeclaredName, Declaration], names: Iterable[DeclaredName]
) -> dict[DeclaredName, Declaration]:
    """The declarations with these names, and those that they use."""
    found: set[DeclaredName] = set()
    waiting = list(names)
    while waiting:
        key = waiting.pop()
        if key in declared and key not in found:
            found.add(key)
            waiting += _names_of_declaration(declared[key])
    return {key: one for key, one in declared.items() if key in found}


def with_texts(rule: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Returns a rule with each of its formulas and expressions changed. SMT-LIB text has no names of ours."""
    found = dict(rule)
    if "temporal" in rule:
        found["temporal"] = _each(rule["temporal"], lambda one: change(one, "start"))
    if "solver" in rule:
        tools = {
            tool: {**one, "variables": {name: _variable(each, change) for name, each in one["variables"].items()}}
            for tool, one in rule["solver"]["tools"].items()
        }
        found["solver"] = {**rule["solver"], "tools": tools}
    return found


def _variable(variable: Mapping[str, Any], change: Change) -> dict[str, Any]:
    source = variable.get("from", "")
    if not source or source.split("(")[0].strip() in ("conversation", "confirmation"):  # roles are no names
        return dict(variable)
    return {**variable, "from": change(source, "condition")}


def _changed_pattern(text: str, change: Change) -> str:
    first, last = _PATTERN
    return change(f"{first}{text}{last}", "start")[len(first) : -len(last)]


def _each(value: Any, change: Callable[[str], str]) -> Any:
    return change(value) if isinstance(value, str) else [change(one) for one in value]


def _visited_uses(visit: Callable[[Change], object]) -> list[NameUse]:
    """The names in the texts that a function visits."""
    found: list[NameUse] = []

    def read(text: str, start: Start) -> str:
        found.extend(names_in(text, start))
        return text

    visit(read)
    return found


def _names_of_declaration(one: Declaration) -> list[DeclaredName]:
    if one.section == "labels":
        return [("tag", name) for name in one.tags()]
    return [(role, name) for role, name, _ in _visited_uses(one.changed)]


# --- one meaning for each name


class NameTable:
    """The names of the drafts so far.

    Args:
        declared: declarations that are there before the first draft.
    """

    def __init__(self, declared: Mapping[DeclaredName, Declaration]) -> None:
        self.declared = dict(declared)
        self.problems: list[Problem] = []
        self._bound = bound_names(declared.values())

    def add(self, part: AssemblyPart, sentences: Sequence[int]) -> AssemblyPart:
        """Adds the names of a draft, and returns the draft with names of one meaning.

        A name that cannot be replaced becomes a problem of the draft.
        """
        while (key := self._clash(part)) is not None:
            if not _is_replaceable(part, key):
                self.problems.append(_problem(key, part, sentences))
                break
            part = part.renamed(key, self._free(part, key))
        self.declared |= {key: one for key, one in part.declared.items() if key not in self.declared}
        self._bound |= part.bound
        return part

    def _clash(self, part: AssemblyPart) -> DeclaredName | None:
        """A name of a draft that has another meaning so far."""
        for key, one in part.declared.items():
            if self.declared.get(key, one).meaning != one.meaning or (key[0] == "value" and key[1] in self._bound):
                return key
        bound = sorted(part.bound)
        return next((("value", one) for one in bound if ("value", one) in self.declared), None)

    def _free(self, part: AssemblyPart, key: DeclaredName) -> str:
        space, name = key
        taken = part.names | self._bound | RESERVED
        meaning = part.declared[key].meaning if key in part.declared else None
        for found in (f"{name}_{at}" for at in count(2)):
            there = self.declared.get((space, found))
            if found not in taken and (there is None or there.meaning == meaning):
                return found
        raise AssertionError(name)


def _is_replaceable(part: AssemblyPart, key: DeclaredName) -> bool:
    """Whether all places of a name are names in the syntax tree: labels, and tags of labels, are in strings too."""
    space, name = key
    labels = [one for one in part.declared.values() if one.section == "labels"]
    return space != "label" and not (space == "tag" and any(name in one.tags() for one in labels))


def _problem(key: DeclaredName, part: AssemblyPart, sentences: Sequence[int]) -> Problem:
    section, name = part.declared[key].section, key[1]
    message = f"{name!r} in '{section}:' has another meaning in the rules of other sentences; choose another name"
    return Problem("name", message, sentences=tuple(sentences), fatal=True)
