"""Reads `constants:` and `define:` in a policy file: named values and terms for its rules.

An including file can set a constant, within the limits that its declaration states. Neither a constant nor a definition
can have a name that rules already use otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from guardagent._support.syntax import compile_pattern
from guardagent.errors import name_hint
from guardagent.policy.file.policy_keys import (
    Key,
    Schema,
    by_name,
    choice,
    items,
    keys,
    mapping,
    plain_text,
    reads,
    regular_expression,
    text,
)
from guardagent.policy.file.policy_keys import value as plain_value
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, SourceText, shortened
from guardagent.policy.language.declarations import Constant, Definition
from guardagent.policy.language.values import duration_of
from guardagent.types import freeze

TYPES = MappingProxyType(
    {
        "string": ("string", ""),
        "number": ("number", ""),
        "whole number": ("number", "whole number"),
        "boolean": ("boolean", ""),
        "duration": ("duration", ""),
        "list": ("list", ""),
        "list of strings": ("list", "string"),
        "list of numbers": ("list", "number"),
        "table": ("table", ""),
    }
)
"""A type -> (the kind of the value, the kind of its items or of the number)."""
_NUMBERS = ("number", "whole number", "duration", "list of numbers")
_STRINGS = ("string", "list of strings")


# --- limits


@dataclass(frozen=True, slots=True)
class ConstantLimits:
    """The limits of a constant; those of a list concern each item.

    Attributes:
        type: one of `TYPES`; empty for any value.
        choices: the allowed values; empty for all.
        matches: a regular expression (RE2) for the whole string; empty for all strings.
        least: the least number; None for all.
        most: the greatest number; None for all.
        expected: the meaning of the limits, for messages.
    """

    type: str = ""
    choices: tuple[Constant, ...] = ()
    matches: str = ""
    least: int | Fraction | None = None
    most: int | Fraction | None = None
    expected: str = ""

    def misplaced(self) -> str:
        """The key of a limit that no value of the type has; empty if they all fit."""
        if self.matches and self.type not in _STRINGS:
            return "matches"
        wrong = [key for key in ("least", "most") if getattr(self, key) is not None and self.type not in _NUMBERS]
        return wrong[0] if wrong else ""

    def problem(self, value: Any, kind: str) -> str:
        """The problem with a value of a kind, and what is expected; empty if it is allowed."""
        wanted, items = TYPES.get(self.type, ("", ""))
        if wanted not in ("", kind):
            return f"is {f'a {kind}' if kind else 'empty'}; expected a {self.type}"
        for part in value if kind == "list" else (value,):
            if not (_is(part, items) and self._allows(part)):
                verb = "contains" if kind == "list" else "is"
                return f"{verb} {_shown(part)}{self._expectation(part)}"
        return ""

    def _allows(self, constant: Constant) -> bool:
        return (
            (not self.choices or constant in self.choices)
            and (not self.matches or compile_pattern(self.matches).fullmatch(constant) is not None)
            and (self.least is None or constant >= self.least)  # type: ignore[operator]
            and (self.most is None or constant <= self.most)  # type: ignore[operator]
        )

    def _expectation(self, constant: Constant) -> str:
        if self.choices and not self.expected:
            return name_hint(str(constant), [_plain(choice) for choice in self.choices if choice != ""])
        bounds = [
            f"{word} {bound}" for word, bound in (("at least", self.least), ("at most", self.most)) if bound is not None
        ]
        stated = [f"a {self.type}" if self.type else "another value", *bounds]
        return f"; expected {self.expected or ', '.join(stated)}"


UNLIMITED = ConstantLimits()


def _is(value: Constant, kind: str) -> bool:
    """Whether a value is of the kind of an item."""
    if kind in ("number", "whole number"):
        return not isinstance(value, bool | str) and (kind == "number" or value == int(value))
    return kind != "string" or isinstance(value, str)


def _shown(value: Constant) -> str:
    if isinstance(value, str):
        return repr(shortened(value)) if value else "an empty string"
    return _plain(value)


def _plain(value: Constant) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(float(value) if isinstance(value, Fraction) else value)


# --- definitions

# Names that rules already use otherwise; a declared one could never be reached, or would change other rules.
RESERVED = frozenset(
    "AND OR NOT U W R S G F X O H Y true false True False null None none nil in matches within now principal state "
    "output args failed fact known len first last some count sum all any time sources seen counter "
    "before after seq forall exists flow tool action decision conversation confirmation".split()
)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_SIGNATURE = re.compile(r"([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?")


@reads(by_name.schema)
def _definitions(node: SourceNode, key: Key) -> dict[str, Definition]:
    definitions: dict[str, Definition] = {}
    for signature, body in by_name(node, key).items():
        definition = _definition(signature, body, node.fields[signature])
        if definition.name in definitions:
            raise node.fields[signature].error(f"{definition.name!r} is defined twice; expected one definition")
        definitions[definition.name] = definition
    return definitions


def _definition(signature: str, body: SourceText, place: SourceNode) -> Definition:
    match = _SIGNATURE.fullmatch(signature)
    if match is None:
        raise place.error(f"{shortened(signature)!r} is not 'name(parameter, ...)'; expected a name with parameters")
    check_name(match[1], place)
    parameters = tuple(part.strip() for part in match[2].split(",")) if (match[2] or "").strip() else ()
    for parameter in parameters:
        check_name(parameter, place)
    if len(set(parameters)) < len(parameters):
        raise place.error(f"{shortened(signature)!r} names a parameter twice; expected each name once")
    return Definition(match[1], parameters, body)


def check_name(name: str, place: SourceNode) -> None:
    """Requires a name that rules can use for a value."""
    if not IDENTIFIER.fullmatch(name):
        raise place.error(f"{shortened(name)!r} is not a valid name; expected letters, digits and '_'")
    if name in RESERVED:
        raise place.error(f"{name!r} is a word of the language; choose another name")


DEFINE = Key(
    "define",
    _definitions,
    "a mapping of 'name(parameter, ...)' to conditions",
    "Named conditions for rules, with parameters.",
    item=Key("definition", text, "a condition"),
)


# --- constants

_EXPECTED = "a string, a number, a boolean, a list of them, {duration: 24h}, or {table: ...}"
_OR_NOTHING = f"{_EXPECTED}; nothing for a required parameter, or a mapping with 'value' or 'type'"
_SCALAR: Schema = {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True)
class DeclaredConstant:
    """A constant.

    Attributes:
        value: its value; None if an including file has to set it.
        kind: the kind of the value; empty without one.
        limits: the values that it accepts.
    """

    value: Constant | tuple[Constant, ...] | None
    kind: str
    place: SourceText
    limits: ConstantLimits = UNLIMITED

    @property
    def meaning(self) -> object:
        return self.kind, self.value


def set_constants(
    declared: dict[str, DeclaredConstant], values: dict[str, DeclaredConstant]
) -> dict[str, DeclaredConstant]:
    """The constants of an included file with the values that the including file sets.

    Raises:
        ContentError: there is no such constant, or it does not accept the value.
    """
    for name, value in values.items():
        known = declared.get(name)
        if known is None:
            raise value.place.error(
                f"unknown constant {shortened(name)!r} of the included file{name_hint(name, declared)}"
            )
        limits = known.limits if known.limits.type else replace(known.limits, type=known.kind)
        _require_allowed(name, value, limits)
        declared = {**declared, name: replace(value, limits=limits)}
    return declared


def _require_allowed(name: str, declared_constant: DeclaredConstant, limits: ConstantLimits) -> None:
    problem = (
        limits.problem(declared_constant.value, declared_constant.kind)
        if declared_constant.kind
        else "is empty; expected a value"
    )
    if problem:
        raise declared_constant.place.error(f"constant {name!r} {problem}")


# --- values


@reads(
    lambda _: {
        "anyOf": [
            _SCALAR,
            {"type": "array", "items": _SCALAR},
            *map(mapping.schema, (_DURATION, _TABLE)),
            {"type": "null"},
        ]
    }
)
def _value(node: SourceNode, key: Key) -> DeclaredConstant:
    place = SourceText("", node.path, node.key_line or node.line)
    if isinstance(node.value, list):
        return DeclaredConstant(tuple(_scalar.read(item_node, key) for item_node in node.value), "list", place)
    if isinstance(node.value, dict) and "table" in node.fields:
        return DeclaredConstant(mapping(node, _TABLE)["table"], "table", place)
    if isinstance(node.value, dict):
        return DeclaredConstant(_seconds(node), "duration", place)
    if isinstance(node.value, SourceScalar) and node.value.value is None:
        return DeclaredConstant(None, "", place)
    value = _scalar.read(node, key)
    kind = {str: "string", bool: "boolean"}.get(type(value), "number")
    return DeclaredConstant(value, kind, place)


@reads(lambda _: {"type": ["array", "object"]})
def _table(node: SourceNode, key: Key) -> Any:
    """Reads a table: mappings and lists of values, at any depth."""
    if not isinstance(node.value, dict | list):
        raise key.mismatch(node)
    return freeze(_cell(node, key))


def _cell(node: SourceNode, key: Key) -> Any:
    if isinstance(node.value, dict):
        return {name: _cell(field, key) for name, field in node.fields.items()}
    return [_cell(item, key) for item in node.items] if isinstance(node.value, list) else _scalar.read(node, key)


def _seconds(node: SourceNode) -> int | Fraction:
    written = mapping(node, _DURATION)["duration"]
    seconds = duration_of(written.text)
    if seconds is None:
        raise written.error(f"{shortened(written.text)!r} is not a duration; expected a number and ms, s, m, h, d or w")
    return seconds


@reads(lambda _: _SCALAR)
def _scalar(node: SourceNode, key: Key) -> Constant:
    value = plain_value(node, key)
    if isinstance(node.value, SourceText) and node.value.source == value and duration_of(value) is not None:
        raise node.value.error(f"{value!r} is ambiguous; write {{duration: {value}}}, or the string in quotes")
    return Fraction(repr(value)) if isinstance(value, float) else value


@reads(lambda _: {"anyOf": [{"type": "number"}, mapping.schema(_DURATION)]})
def _bound(node: SourceNode, key: Key) -> int | Fraction:
    value = _value(node, key)
    if isinstance(value.value, int | Fraction) and not isinstance(value.value, bool):
        return value.value
    raise key.mismatch(node)


# --- declarations


@reads(lambda key: {"anyOf": [*_value.schema(key)["anyOf"], mapping.schema(_DECLARATION)]})
def _declaration(node: SourceNode, key: Key) -> DeclaredConstant:
    """Reads a value, or a mapping of its limits."""
    if not node.fields or node.fields.keys() & {"duration", "table"}:
        return _value(node, key)
    written = mapping(node, _DECLARATION)
    place = SourceText("", node.path, node.key_line or node.line)
    declared_constant: DeclaredConstant = written.pop("value", DeclaredConstant(None, "", place))
    limits = ConstantLimits(**{"type": declared_constant.kind, **written})
    if not limits.type:
        raise node.error("the constant has neither 'value' nor 'type'; expected one of them")
    if limit := limits.misplaced():
        raise node.fields[limit].error(f"{limit!r} of a {limits.type}; expected it for {_OF[limit]}")
    return replace(declared_constant, kind=declared_constant.kind or TYPES[limits.type][0], limits=limits, place=place)


@reads(by_name.schema)
def _declarations(node: SourceNode, key: Key) -> dict[str, DeclaredConstant]:
    declared_constants = by_name(node, key)
    for name, value in node.fields.items():
        check_name(name, value)
        if declared_constants[name].value is not None:
            _require_allowed(name, declared_constants[name], declared_constants[name].limits)
    return declared_constants


_OF: dict[str, Any] = {"matches": "strings", "least": "numbers", "most": "numbers"}
_DURATION: Key = Key(
    "constant", mapping, _EXPECTED, keys={"duration": Key("duration", text, "a duration, such as 24h", required=True)}
)
_TABLE: Key = Key(
    "constant",
    mapping,
    _EXPECTED,
    keys={"table": Key("table", _table, "a mapping or a list of mappings", "A table.", required=True)},
)
_DECLARATION: Key = Key(
    "constant",
    mapping,
    _OR_NOTHING,
    keys=keys(
        Key("value", _value, _EXPECTED, "The value; without it, an including file has to set one."),
        Key("type", choice, "a type", "The type of the value; by default that of 'value'.", choices=tuple(TYPES)),
        Key("choices", items, "a list of values", "The allowed values.", item=Key("choice", _scalar, _EXPECTED)),
        Key("matches", regular_expression, "a regular expression", "A regular expression (RE2) for the whole string."),
        Key("least", _bound, "a number or a duration", "The least value."),
        Key("most", _bound, "a number or a duration", "The greatest value."),
        Key("expected", plain_text, "a string", "What is expected, for messages, such as 'an absolute folder'."),
    ),
)
CONSTANTS = Key(
    "constants",
    _declarations,
    "a mapping of names to values",
    "Named values for rules; an including file can set them.",
    item=Key("constant", _declaration, _OR_NOTHING),
)
SETTINGS = Key(
    "constants",
    by_name,
    "a mapping of names to values",
    "Values that replace those of the included file.",
    item=Key("constant", _value, _EXPECTED),
)
