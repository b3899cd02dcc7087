"""A draft in the assembly: its rules, its declarations one by one, and the names in both.

The grammar decides which words in a rule are names, so that they can be replaced. A name that several drafts declare
with different meanings gets another name in the later draft.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
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
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    try:
        return tuple((role, str(token), lines[token.line - 1] + token.column - 1) for role, token in _uses(tree))
    except RecursionError:
        raise TemporalError("the rule is nested too deeply; simplify it", text[:80], 1, 1) from None


def with_name(text: str, start: Start, roles: frozenset[Role], old: str, new: str) -> str:
    """Returns a text with another name at each place that has one of the roles."""
    for role, name, at in sorted(names_in(text, start), key=lambda name: -name[2]):
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
            yield from (("label", label_node) for label_node in inner)
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
    if not all(isinstance(word, Node) and word.data == "variable" for word in words):
        words = ()
    if not words:
        yield "value", name
    yield from (("counter" if name == "counter" else "label", word.children[0]) for word in words)
    return operands[len(words) :]


def _inside(token: Any) -> Any:
    """A string without its quotes."""
    return token.of(token.type, token[1:-1], token.text, token.at + 1)


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
                value[key] = _each(value[key], lambda text: change(text, "condition"))
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
        for source in [sources] if isinstance(sources, str) else sources:
            words = source.removeprefix("@").split("[")[0].split(".")
            yield from (".".join(words[:at]) for at in range(1, len(words) + 1) if source.startswith("@"))


def declarations_of(content: Mapping[str, Any]) -> dict[DeclaredName, Declaration]:
    """Returns the declarations of a draft, or of the content of a policy file."""
    declarations = {}
    for section in DECLARATIONS:
        for key, value in (content.get(section) or {}).items():
            name, _, rest = key.partition("(")
            parameters = tuple(part.strip() for part in rest.strip().removesuffix(")").split(",") if part.strip())
            declaration = Declaration(section, name.strip(), value, parameters if section == "define" else (), key)
            declarations[declaration.space, declaration.name] = declaration
    return declarations


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
        declared = (key for declaration in self.declared.values() for key in _names_of_declaration(declaration))
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

        rules = tuple(replace(rule, rule=with_texts(rule.rule, change)) for rule in self.rules)
        declared = {}
        for there, declaration in self.declared.items():
            parameters = tuple(new if name == old and space == "value" else name for name in declaration.parameters)
            part = declaration.changed(change).named(new if there == key else declaration.name, parameters)
            declared[part.space, part.name] = part
        return AssemblyPart(rules, declared)


def bound_names(declared: Iterable[Declaration]) -> set[str]:
    """The variables and parameters inside of declarations."""
    bound_names = set()
    for declaration in declared:
        bound_names |= {name for role, name, _ in _visited_uses(declaration.changed) if role == "bound"} | set(
            declaration.parameters
        )
    return bound_names


def names_of(rules: Iterable[RuleDraft]) -> set[DeclaredName]:
    """The names that rules use themselves."""
    uses = (use for rule in rules for use in _visited_uses(partial(with_texts, rule.rule)))
    return {(role, name) for role, name, _ in uses}


def used_declarations(
    declared: Mapping[DeclaredName, Declaration], names: Iterable[DeclaredName]
) -> dict[DeclaredName, Declaration]:
    """The declarations with these names, and those that they use."""
    declared_names: set[DeclaredName] = set()
    waiting = list(names)
    while waiting:
        key = waiting.pop()
        if key in declared and key not in declared_names:
            declared_names.add(key)
            waiting += _names_of_declaration(declared[key])
    return {key: declaration for key, declaration in declared.items() if key in declared_names}


def with_texts(rule: Mapping[str, Any], change: Change) -> dict[str, Any]:
    """Returns a rule with each of its formulas and expressions changed. SMT-LIB text has no names of ours."""
    texts = dict(rule)
    if "temporal" in rule:
        texts["temporal"] = _each(rule["temporal"], lambda formula: change(formula, "start"))
    if "solver" in rule:
        tools = {
            tool: {
                **solver_tool,
                "variables": {name: _variable(each, change) for name, each in solver_tool["variables"].items()},
            }
            for tool, solver_tool in rule["solver"]["tools"].items()
        }
        texts["solver"] = {**rule["solver"], "tools": tools}
    return texts


def _variable(variable: Mapping[str, Any], change: Change) -> dict[str, Any]:
    source = variable.get("from", "")
    if not source or source.split("(")[0].strip() in ("conversation", "confirmation"):  # roles are not names
        return dict(variable)
    return {**variable, "from": change(source, "condition")}


def _changed_pattern(text: str, change: Change) -> str:
    first, last = _PATTERN
    return change(f"{first}{text}{last}", "start")[len(first) : -len(last)]


def _each(value: Any, change: Callable[[str], str]) -> Any:
    return change(value) if isinstance(value, str) else [change(part) for part in value]


def _visited_uses(visit: Callable[[Change], object]) -> list[NameUse]:
    """The names in the texts that a function visits."""
    name_uses: list[NameUse] = []

    def read(text: str, start: Start) -> str:
        name_uses.extend(names_in(text, start))
        return text

    visit(read)
    return name_uses


def _names_of_declaration(declaration: Declaration) -> list[DeclaredName]:
    if declaration.section == "labels":
        return [("tag", name) for name in declaration.tags()]
    return [(role, name) for role, name, _ in _visited_uses(declaration.changed)]


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
        self.declared |= {key: declaration for key, declaration in part.declared.items() if key not in self.declared}
        self._bound |= part.bound
        return part

    def _clash(self, part: AssemblyPart) -> DeclaredName | None:
        """A name of a draft that has another meaning so far."""
        for key, declaration in part.declared.items():
            if self.declared.get(key, declaration).meaning != declaration.meaning or (
                key[0] == "value" and key[1] in self._bound
            ):
                return key
        bound = sorted(part.bound)
        return next((("value", bound_name) for bound_name in bound if ("value", bound_name) in self.declared), None)

    def _free(self, part: AssemblyPart, key: DeclaredName) -> str:
        space, name = key
        taken = part.names | self._bound | RESERVED
        meaning = part.declared[key].meaning if key in part.declared else None
        for free_name in (f"{name}_{at}" for at in count(2)):
            there = self.declared.get((space, free_name))
            if free_name not in taken and (there is None or there.meaning == meaning):
                return free_name
        raise AssertionError(name)


def _is_replaceable(part: AssemblyPart, key: DeclaredName) -> bool:
    """Whether all places of a name are names in the syntax tree: labels, and tags of labels, are in strings too."""
    space, name = key
    labels = [declaration for declaration in part.declared.values() if declaration.section == "labels"]
    return space != "label" and not (space == "tag" and any(name in label.tags() for label in labels))


def _problem(key: DeclaredName, part: AssemblyPart, sentences: Sequence[int]) -> Problem:
    section, name = part.declared[key].section, key[1]
    message = f"{name!r} in '{section}:' has another meaning in the rules of other sentences; choose another name"
    return Problem("name", message, sentences=tuple(sentences), fatal=True)
