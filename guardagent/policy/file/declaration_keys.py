"""Reads `constants:` and `define:` in a policy file: the names that its rules can use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from guardagent.errors import name_hint
from guardagent.policy.file.policy_keys import Key, by_name, mapping, reads, text
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, shortened
from guardagent.policy.language.declarations import Constant, Definition
from guardagent.policy.language.durations import duration_of

# Names that rules already use otherwise; a declared one could never be reached, or would change other rules.
RESERVED = frozenset(
    "AND OR NOT U W R S G F X O H Y true false True False null None none nil in matches within now principal state "
    "output args failed fact known len first last some count sum all any time sources seen counter "
    "before after seq forall exists flow tool action decision conversation confirmation".split()
)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_SIGNATURE = re.compile(r"([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?")
_EXPECTED = "a string, a number, a boolean, a list of them, {duration: 24h}, or nothing for a required parameter"


@dataclass(frozen=True, slots=True)
class DeclaredConstant:
    """A constant.

    Attributes:
        value: its value; None if an including file has to set it.
        kind: the kind of the value; empty without one.
    """

    value: Constant | tuple[Constant, ...] | None
    kind: str
    place: SourceText

    @property
    def meaning(self) -> object:
        return self.kind, self.value


def _schema(_: Key) -> dict[str, object]:
    scalar = {"type": ["string", "number", "boolean"]}
    duration = {
        "type": "object",
        "additionalProperties": False,
        "required": ["duration"],
        "properties": {"duration": {"type": "string"}},
    }
    return {"anyOf": [scalar, {"type": "array", "items": scalar}, duration, {"type": "null"}]}


@reads(_schema)
def _constant(node: SourceNode, key: Key) -> DeclaredConstant:
    place = SourceText("", node.path, node.key_line or node.line)
    if isinstance(node.value, list):
        return DeclaredConstant(tuple(_scalar(one, key)[0] for one in node.value), "list", place)
    if isinstance(node.value, dict):
        return DeclaredConstant(_seconds(node), "duration", place)
    if isinstance(node.value, SourceScalar) and node.value.value is None:
        return DeclaredConstant(None, "", place)
    value, kind = _scalar(node, key)
    return DeclaredConstant(value, kind, place)


def _seconds(node: SourceNode) -> int | Fraction:
    written = mapping(node, _DURATION)["duration"]
    seconds = duration_of(written.text)
    if seconds is None:
        raise written.error(f"{shortened(written.text)!r} is not a duration; expected a number and ms, s, m, h, d or w")
    return seconds


def _scalar(node: SourceNode, key: Key) -> tuple[Constant, str]:
    match node.value:
        case SourceText(text=value, source=source):
            if source == value and duration_of(value) is not None:
                raise node.value.error(f"{value!r} is ambiguous; write {{duration: {value}}}, or the string in quotes")
            return value, "string"
        case SourceScalar(value=bool() as value):
            return value, "boolean"
        case SourceScalar(value=int() as value):
            return value, "number"
        case SourceScalar(value=float() as value) if value - value == 0:
            return Fraction(repr(value)), "number"
    raise key.mismatch(node)


@reads(by_name.schema)
def _constants(node: SourceNode, key: Key) -> dict[str, DeclaredConstant]:
    found = by_name(node, key)
    for name, value in node.fields.items():
        check_name(name, value)
    return found


@reads(by_name.schema)
def _definitions(node: SourceNode, key: Key) -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    for signature, body in by_name(node, key).items():
        definition = _definition(signature, body, node.fields[signature])
        if definition.name in found:
            raise node.fields[signature].error(f"{definition.name!r} is defined twice; expected one definition")
        found[definition.name] = definition
    return found


def _definition(signature: str, body: SourceText, place: SourceNode) -> Definition:
    match = _SIGNATURE.fullmatch(signature)
    if match is None:
        raise place.error(f"{shortened(signature)!r} is not 'name(parameter, ...)'; expected a name with parameters")
    check_name(match[1], place)
    parameters = tuple(one.strip() for one in match[2].split(",")) if (match[2] or "").strip() else ()
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


def set_constants(
    declared: dict[str, DeclaredConstant], values: dict[str, DeclaredConstant]
) -> dict[str, DeclaredConstant]:
    """The constants of an included file with the values that the including file sets.

    Raises:
        ContentError: there is no such constant, or its value has another kind.
    """
    for name, one in values.items():
        known = declared.get(name)
        if known is None:
            raise one.place.error(
                f"unknown constant {shortened(name)!r} of the included file{name_hint(name, declared)}"
            )
        if one.value is None or known.kind not in ("", one.kind):
            expected = f"a {known.kind}" if known.kind else "a value"
            raise one.place.error(
                f"constant {name!r} is {(one.kind and 'a ' + one.kind) or 'empty'}; expected {expected}"
            )
    return declared | values


_DURATION = Key(
    "constant",
    mapping,
    _EXPECTED,
    keys={"duration": Key("duration", text, "a duration, such as 24h", required=True)},
)
CONSTANTS = Key(
    "constants",
    _constants,
    "a mapping of names to values",
    "Named values for rules; an including file can set them.",
    item=Key("constant", _constant, _EXPECTED),
)
DEFINE = Key(
    "define",
    _definitions,
    "a mapping of 'name(parameter, ...)' to conditions",
    "Named conditions for rules, with parameters.",
    item=Key("definition", text, "a condition"),
)
