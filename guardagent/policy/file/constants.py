"""Reads `constants:` in a policy file: named values for its rules, which an including file can set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from guardagent.errors import name_hint
from guardagent.policy.file.constant_limits import TYPES, UNLIMITED, ConstantLimits
from guardagent.policy.file.definition_keys import check_name
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
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, shortened
from guardagent.policy.language.declarations import Constant
from guardagent.policy.language.durations import duration_of

_EXPECTED = "a string, a number, a boolean, a list of them, or {duration: 24h}"
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
    for name, one in values.items():
        known = declared.get(name)
        if known is None:
            raise one.place.error(
                f"unknown constant {shortened(name)!r} of the included file{name_hint(name, declared)}"
            )
        limits = known.limits if known.limits.type else replace(known.limits, type=known.kind)
        _require_allowed(name, one, limits)
        declared = {**declared, name: replace(one, limits=limits)}
    return declared


def _require_allowed(name: str, one: DeclaredConstant, limits: ConstantLimits) -> None:
    problem = limits.problem(one.value, one.kind) if one.kind else "is empty; expected a value"
    if problem:
        raise one.place.error(f"constant {name!r} {problem}")


# --- values


@reads(lambda _: {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR}, mapping.schema(_DURATION), {"type": "null"}]})
def _value(node: SourceNode, key: Key) -> DeclaredConstant:
    place = SourceText("", node.path, node.key_line or node.line)
    if isinstance(node.value, list):
        return DeclaredConstant(tuple(_scalar.read(one, key) for one in node.value), "list", place)
    if isinstance(node.value, dict):
        return DeclaredConstant(_seconds(node), "duration", place)
    if isinstance(node.value, SourceScalar) and node.value.value is None:
        return DeclaredConstant(None, "", place)
    value = _scalar.read(node, key)
    kind = {str: "string", bool: "boolean"}.get(type(value), "number")
    return DeclaredConstant(value, kind, place)


def _seconds(node: SourceNode) -> int | Fraction:
    written = mapping(node, _DURATION)["duration"]
    seconds = duration_of(written.text)
    if seconds is None:
        raise written.error(f"{shortened(written.text)!r} is not a duration; expected a number and ms, s, m, h, d or w")
    return seconds


@reads(lambda _: _SCALAR)
def _scalar(node: SourceNode, key: Key) -> Constant:
    match node.value:
        case SourceText(text=value, source=source):
            if source == value and duration_of(value) is not None:
                raise node.value.error(f"{value!r} is ambiguous; write {{duration: {value}}}, or the string in quotes")
            return value
        case SourceScalar(value=bool() as value):
            return value
        case SourceScalar(value=int() as value):
            return value
        case SourceScalar(value=float() as value) if value - value == 0:
            return Fraction(repr(value))
    raise key.mismatch(node)


@reads(lambda _: {"anyOf": [{"type": "number"}, mapping.schema(_DURATION)]})
def _bound(node: SourceNode, key: Key) -> int | Fraction:
    found = _value(node, key)
    if isinstance(found.value, int | Fraction) and not isinstance(found.value, bool):
        return found.value
    raise key.mismatch(node)


# --- declarations


@reads(lambda key: {"anyOf": [*_value.schema(key)["anyOf"], mapping.schema(_DECLARATION)]})
def _declaration(node: SourceNode, key: Key) -> DeclaredConstant:
    """Reads a value, or a mapping of its limits."""
    if not node.fields or "duration" in node.fields:
        return _value(node, key)
    written = mapping(node, _DECLARATION)
    place = SourceText("", node.path, node.key_line or node.line)
    found: DeclaredConstant = written.pop("value", DeclaredConstant(None, "", place))
    limits = ConstantLimits(**{"type": found.kind, **written})
    if not limits.type:
        raise node.error("the constant has neither 'value' nor 'type'; expected one of them")
    if limit := limits.misplaced():
        raise node.fields[limit].error(f"{limit!r} of a {limits.type}; expected it for {_OF[limit]}")
    return replace(found, kind=found.kind or TYPES[limits.type][0], limits=limits, place=place)


@reads(by_name.schema)
def _declarations(node: SourceNode, key: Key) -> dict[str, DeclaredConstant]:
    found = by_name(node, key)
    for name, value in node.fields.items():
        check_name(name, value)
        if found[name].value is not None:
            _require_allowed(name, found[name], found[name].limits)
    return found


@reads(by_name.schema)
def _settings(node: SourceNode, key: Key) -> dict[str, DeclaredConstant]:
    found: dict[str, DeclaredConstant] = by_name(node, key)
    return found


_OF: dict[str, Any] = {"matches": "strings", "least": "numbers", "most": "numbers"}
_DURATION: Key = Key(
    "constant",
    mapping,
    _EXPECTED,
    keys={"duration": Key("duration", text, "a duration, such as 24h", required=True)},
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
    _settings,
    "a mapping of names to values",
    "Values that replace those of the included file.",
    item=Key("constant", _value, _EXPECTED),
)
