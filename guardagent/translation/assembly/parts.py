"""A draft in the assembly: its rules, and its declarations one by one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from guardagent.translation.assembly.names import NameUse, Role, Start, names_in, with_name
from guardagent.translation.drafts import DECLARATIONS, Draft, RuleDraft

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
        found |= {use.name for use in _visited_uses(one.changed) if use.role == "bound"} | set(one.parameters)
    return found


def names_of(rules: Iterable[RuleDraft]) -> set[DeclaredName]:
    """The names that rules use themselves."""
    uses = (one for rule in rules for one in _visited_uses(lambda change: with_texts(rule.rule, change)))  # noqa: B023
    return {(one.role, one.name) for one in uses}


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
    return [(use.role, use.name) for use in _visited_uses(one.changed)]
