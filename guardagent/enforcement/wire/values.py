"""Values of calls, facts and outputs as JSON, without loss. Equal values have equal forms.

| value | form |
|---|---|
| None, booleans, strings, integers, finite floats | as they are |
| lists and tuples; mappings with string keys | a list; an object |
| `Decimal`, `UUID` | `{"$object": ["decimal", string]}`, `{"$object": ["uuid", string]}` |
| dates and times | the same with `date`, `datetime` or `time`, and ISO 8601; a zone becomes its offset |
| `timedelta`; bytes | the same with `microseconds`; with `base64` |
| a mapping whose only key is `$object` | `{"$object": ["dict", {…}]}` |

Other values have no form, as in `HostCall.digest`. A JSON number that no float prints as is read as a `Decimal`, so all
of its digits count. A `WireShape` has the fields of a JSON object with their types: it reads one, and gives its schema.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent.errors import InputError, name_hint

# --- the fields of objects

_MISSING: Any = object()
_KINDS: dict[type, tuple[str, str]] = {
    str: ("string", "a string"),
    bool: ("boolean", "true or false"),
    int: ("integer", "a whole number"),
    float: ("number", "a number"),
    dict: ("object", "an object"),
    list: ("array", "a list"),
}
"""The types of JSON values, each with its name in schemas and its name in messages."""


class WireError(InputError):
    """A message has not the expected form.

    Attributes:
        where: the path of the invalid part, such as `call.args.amount`; empty for the whole message.
        problem: what is wrong and what was expected.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where, self.problem = where, problem


Reader = Callable[[Any, str], Any]
"""Makes a value from its JSON form and its path."""


@dataclass(frozen=True, slots=True)
class WireField:
    """A field of a JSON object.

    Attributes:
        kind: the type of its JSON value, where `float` includes `int`; None for any value.
        default: its value if it is missing, and that of null if it is None. Without one, the field is required.
        read: makes its value; None to keep the JSON value.
        more: more of its JSON schema.
    """

    kind: type | None = None
    default: Any = _MISSING
    read: Reader | None = None
    more: Mapping[str, Any] | None = None

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        schema = dict(self.more or {})
        if self.kind is not None:
            name = _KINDS[self.kind][0]
            schema.setdefault("type", [name, "null"] if self.default is None else name)
        return schema


class WireShape:
    """The fields of a JSON object: they read it, and give its JSON schema. There are no others.

    Args:
        fields: the fields by their names, in the order in which they are read.
    """

    def __init__(self, **fields: WireField) -> None:
        self._fields = fields

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the object."""
        required = [name for name, field in self._fields.items() if field.default is _MISSING]
        properties = {name: field.schema for name, field in self._fields.items()}
        about = {"properties": properties, "required": required} if properties else {}
        return {"type": "object", **about, "additionalProperties": False}

    def read(self, value: Any, where: str = "", *, is_open: bool = False) -> dict[str, Any]:
        """Returns the values of all fields by their names.

        Args:
            value: the result of `loads`.
            where: the path of the object.
            is_open: whether unknown fields are ignored.

        Raises:
            WireError: it is not an object with these fields and no others.
        """
        values = typed(value, dict, where)
        read: dict[str, Any] = {}
        for name, field in self._fields.items():
            item = values.get(name, field.default)
            if item is _MISSING:
                raise WireError(where, f"the field {name!r} is missing")
            if item is not field.default:
                place = below(where, name)
                item = item if field.kind is None else typed(item, field.kind, place)
                item = item if field.read is None else field.read(item, place)
            read[name] = item
        if not is_open and (unknown := values.keys() - read.keys()):
            name = min(unknown)[:60]
            raise WireError(below(where, name), f"unknown field{name_hint(name, self._fields)}")
        return read


def items(read: Reader, default: Any = _MISSING, **more: Any) -> WireField:
    """Returns a field with a list, whose value is a tuple.

    Args:
        read: makes an item.
        default: as for a `WireField`.
        more: more of its JSON schema.
    """

    def read_all(values: Any, where: str) -> tuple[Any, ...]:
        return tuple(read(value, f"{where}[{at}]") for at, value in enumerate(values))

    return WireField(list, default, read_all, more)


def strings(default: Any = _MISSING) -> WireField:
    """Returns a field with a list of strings, whose value is a tuple."""
    return items(lambda value, where: typed(value, str, where), default, items={"type": "string"})


def choice(*choices: str) -> WireField:
    """Returns a required field with one of some strings."""

    def read(value: Any, where: str) -> Any:
        if typed(value, str, where) not in choices:
            raise WireError(where, f"is {shown(value)}; expected one of {', '.join(choices)}")
        return value

    return WireField(read=read, more={"enum": list(choices)})


def typed(value: Any, kind: type, where: str) -> Any:
    """Returns a JSON value of a type.

    Raises:
        WireError: it has another type.
    """
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise WireError(where, f"is {shown(value)}; expected {_KINDS[kind][1]}")
    return value


def below(where: str, name: str) -> str:
    """Returns the path of a member of an object."""
    return f"{where}.{name[:80]}" if where else name[:80]


def shown(value: Any) -> str:
    """Returns a short form of an invalid value; no more of it goes into a message."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, str):
        return f"{value[:40]!r}" if len(value) <= 40 else f"a string of {len(value)} characters"
    if isinstance(value, Sequence):
        return "a list"
    names = {None: "null", True: "true", False: "false"}
    return names[value] if value is None or isinstance(value, bool) else f"a {type(value).__name__}"


# --- values

MAX_DEPTH = 100
MAX_DIGITS = 4300  # of a number; Python converts no longer integers
_TAG = "$object"
Replace = Callable[[Any, WireError], Any]
_INTEGERS = range(-(2**63), 2**63)  # integers that are certainly short


def write_value(value: Any, where: str = "", depth: int = 0, replace: Replace | None = None) -> Any:
    """Returns the JSON form of a value.

    Args:
        value: the value.
        where: its path, for errors.
        depth: the number of objects and lists around it.
        replace: returns the form of an inner value that has none, from the value and its error.

    Raises:
        WireError: it has no form.
    """
    try:
        return _written(value, where, depth, replace)
    except WireError as error:
        if replace is None:
            raise
        return replace(value, error)


def _written(value: Any, where: str, depth: int, replace: Replace | None) -> Any:
    kind = type(value)
    if value is None or kind is bool:
        return value
    if isinstance(value, str):
        return complete(str.__str__(value), where)
    if isinstance(value, int):
        return _written_integer(int.__int__(value), where)
    if isinstance(value, float):
        return _finite(float.__float__(value), where)
    if kind in _WRITERS:
        return {_TAG: [_WRITERS[kind][0], _WRITERS[kind][1](_finite(value, where))]}
    _limit(depth, where)
    if isinstance(value, Mapping):
        return _written_mapping(value, where, depth, replace)
    if isinstance(value, list | tuple):
        return [write_value(item, f"{where}[{at}]", depth + 1, replace) for at, item in enumerate(value)]
    raise WireError(where, f"is a {kind.__name__}; expected JSON, a decimal, a date, a time, a UUID or bytes")


def read_value(value: Any, where: str = "", depth: int = 0) -> Any:
    """Returns the value of a JSON form; the arguments are those of `write_value`.

    Raises:
        WireError: it is not a form of a value.
    """
    if type(value) is list:
        _limit(depth, where)
        return [read_value(item, f"{where}[{at}]", depth + 1) for at, item in enumerate(value)]
    if type(value) is not dict:
        return value
    _limit(depth, where)
    if value.keys() == {_TAG}:
        return _read_tagged(value[_TAG], where, depth)
    return {name: read_value(item, below(where, name), depth + 1) for name, item in value.items()}


def read_number(text: str) -> float | decimal.Decimal:
    """Reads a JSON number with a fraction or an exponent: a float if that prints as this number.

    Raises:
        ValueError: it is too large, or has too many digits.
    """
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    exact = _decimal(text)
    return value if decimal.Decimal(repr(value)) == exact else exact


def complete(text: str, where: str) -> str:
    """Returns a string of complete characters.

    Raises:
        WireError: it has half of a surrogate pair.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WireError(where, "contains half of a surrogate pair; expected complete characters") from None
    return text


def _written_integer(value: int, where: str) -> int:
    if value not in _INTEGERS:
        try:
            str(value)
        except ValueError:
            raise WireError(where, f"has more than {MAX_DIGITS} digits; expected a shorter number") from None
    return value


def _written_mapping(value: Mapping[Any, Any], where: str, depth: int, replace: Replace | None) -> dict[str, Any]:
    for name in value:
        if not isinstance(name, str):
            raise WireError(where, f"a key is {shown(name)}; expected a string")
        complete(name, where)
    if value.keys() == {_TAG}:
        inside = write_value(value[_TAG], below(where, _TAG), depth + 1, replace)
        return {_TAG: ["dict", {_TAG: inside}]}
    return {
        str.__str__(name): write_value(item, below(where, name), depth + 1, replace) for name, item in value.items()
    }


def _read_tagged(content: Any, where: str, depth: int) -> Any:
    match content:
        case ["dict", {"$object": inside}] if len(content[1]) == 1:
            return {_TAG: read_value(inside, below(where, _TAG), depth + 1)}
        case [str(kind), str(text)] if kind in _READERS:
            try:
                value = _READERS[kind](text)
                if _WRITERS[type(value)][1](value) == text:
                    return _finite(value, where)
            except (ValueError, OverflowError, decimal.InvalidOperation, binascii.Error):
                pass
            raise WireError(where, f"is not a {kind} string in its usual form: {shown(text)}")
    raise WireError(where, f"has the key {_TAG!r}; expected [type, string] with one of {', '.join(_READERS)}")


def _finite(value: Any, where: str) -> Any:
    if isinstance(value, float | decimal.Decimal) and not math.isfinite(value):
        raise WireError(where, f"is {value}; expected a finite number")
    return value


def _limit(depth: int, where: str) -> None:
    if depth >= MAX_DEPTH:
        raise WireError(where[:200], f"is nested too deep; expected at most {MAX_DEPTH} levels")


def _decimal(text: str) -> decimal.Decimal:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number has {len(text):,} characters; expected at most {MAX_DIGITS:,}")
    return decimal.Decimal(text)


def _microseconds(value: dt.timedelta) -> str:
    return str(value // dt.timedelta(microseconds=1))


_Write = Callable[[Any], str]
_FORMS: dict[type, tuple[str, _Write, Callable[[str], Any]]] = {
    decimal.Decimal: ("decimal", str, _decimal),
    dt.datetime: ("datetime", dt.datetime.isoformat, dt.datetime.fromisoformat),
    dt.date: ("date", dt.date.isoformat, dt.date.fromisoformat),
    dt.time: ("time", dt.time.isoformat, dt.time.fromisoformat),
    dt.timedelta: ("microseconds", _microseconds, lambda text: dt.timedelta(microseconds=int(text))),
    uuid.UUID: ("uuid", str, uuid.UUID),
    bytes: (
        "base64",
        lambda value: base64.b64encode(value).decode(),
        lambda text: base64.b64decode(text, validate=True),
    ),
}
_WRITERS: dict[type, tuple[str, _Write]] = {kind: (name, write) for kind, (name, write, _) in _FORMS.items()}
_READERS: dict[str, Callable[[str], Any]] = {name: read for name, _, read in _FORMS.values()}
