"""Values of data rules: three-valued truth, exact numbers, and strings without coercion.

A missing field, a null, a function without a result and a comparison of different types are *unknown*. Unknown
propagates through every operation (Kleene's strong logic) and carries its causes.

Instants are exact seconds since the epoch, to the microsecond, with a local time in each zone. Durations are a number
and a unit, such as `24h`; their values are seconds.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from operator import add, mod, mul, sub, truediv
from types import MappingProxyType
from typing import Any
from zoneinfo import ZoneInfo

from guardagent._support import json_values
from guardagent.types import MAX_DIGITS
from guardagent.types import format_value as shown_value
from guardagent.types.values import readable

MAX_CAUSES = 8  # of one unknown value: in a long list every item can be unknown


class Absent(str):
    """A cause: the call lacks an argument, which its caller can add."""

    __slots__ = ()


class Undetermined(str):
    """A cause: the value may be known elsewhere or later, so a rule cannot rely on its being unknown."""

    __slots__ = ()


class Unrecorded(Undetermined):
    """A cause: the value is not in a log, though the rule may have seen it when the call was judged."""

    __slots__ = ()


class OpenOutcome(Undetermined):
    """A cause: the outcome of a call in flight, if none is assumed."""

    __slots__ = ()


class Unknown:
    """An unknown value and its causes.

    A cause never contains a value: values can come from the state, and causes go to a model. The compiler adds the text
    of the term instead.

    Args:
        causes: strings, or objects that convert to one when needed.
        bounds: the minimum and maximum of an unknown number, or the items that an unknown set has and can have; None
            if they are unknown too.
    """

    __slots__ = ("_causes", "bounds")

    def __init__(self, *causes: object, bounds: Bounds | SetBounds | None = None) -> None:
        self._causes = causes
        self.bounds = bounds

    @property
    def why(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(str, self._causes)))

    @property
    def absent(self) -> bool:
        """Whether every cause is a missing argument of the call."""
        return bool(self._causes) and all(type(cause) is Absent for cause in self._causes)

    @property
    def unrecorded(self) -> bool:
        """Whether a value that a log lacks is among the causes: then nothing is known, not even that it was unknown."""
        return any(type(cause) is Unrecorded for cause in self._causes)

    @property
    def undetermined(self) -> bool:
        """Whether the value may be known elsewhere or later."""
        return any(isinstance(cause, Undetermined) for cause in self._causes)

    def within(self, bounds: Bounds | SetBounds | None) -> Unknown:
        """The same unknown value with bounds."""
        return Unknown(*self._causes, bounds=bounds)

    @property
    def unbounded(self) -> Unknown:
        """The same unknown value without bounds, for what is computed from it."""
        return self if self.bounds is None else Unknown(*self._causes)

    def __repr__(self) -> str:
        return f"unknown ({'; '.join(self.why)})"

    def __and__(self, other: Unknown) -> Unknown:
        """Combines the causes of two unknown values."""
        if self is other:
            return self
        causes = list(dict.fromkeys(self._causes + other._causes))
        if len(causes) > MAX_CAUSES:
            causes = sorted(causes, key=lambda cause: not isinstance(cause, Undetermined))
        return Unknown(*causes[:MAX_CAUSES])


class StringSet(frozenset[str]):
    """A set of strings. No output or argument contains one: only rules do."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, sorted(self)))}}}"


Truth = bool | Unknown
Bounds = tuple[int | Fraction, int | Fraction]
SetBounds = tuple[StringSet, StringSet]

_KINDS: dict[type, str] = {
    str: "text",
    int: "number",
    float: "number",
    Decimal: "number",
    Fraction: "number",
    bool: "truth value",
    list: "list",
    tuple: "list",
    dict: "mapping",
    MappingProxyType: "mapping",
    StringSet: "set",
}
_READ = frozenset({*_KINDS, Unknown, type(None)})  # types that are read as they are
PLAIN = frozenset({str, int, bool})  # values that compare by ==


def dump_truth(value: Truth) -> bool | list[str]:
    """A truth value as JSON."""
    return list(value.why) if isinstance(value, Unknown) else value


def load_truth(data: bool | list[str]) -> Truth:  # noqa: FBT001 - a value
    return Unknown(*data) if isinstance(data, list) else data


def kind_of(value: Any) -> str | None:
    """The kind of a value; None for null and non-JSON values. Only values of the same kind are comparable."""
    kind = _KINDS.get(type(value))
    if kind is None and value is not None:
        for known in (bool, str, int, float, Mapping):  # subclasses, as of enumerations
            if isinstance(value, known):
                return _KINDS[dict if known is Mapping else known]
    return kind


def as_read(value: Any) -> Any:
    """A value as rules read it: an object of the host, such as a model, in its form as a mapping."""
    return value if type(value) in _READ else readable(value)


def kind_name(value: Any) -> str:
    """The kind of a value in messages."""
    kind = kind_of(value) or ("null" if value is None else f"value of type {type(value).__name__!r}")
    return {"text": "string", "truth value": "boolean"}.get(kind, kind)


def shown(value: Any, limit: int = 60) -> str:
    """A value for people to read."""
    return "unknown" if type(value) is Unknown else shown_value(value, limit)


def exact(value: Any) -> int | Fraction | Unknown:
    """The exact number. A float stands for the decimal that it prints as."""
    if type(value) is int:
        return value
    if isinstance(value, float):
        return _exact_float(float(value))
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > MAX_DIGITS:
            return _uncomputable(value)
        return _reduced(Fraction(value))
    return _reduced(value) if isinstance(value, Fraction) else int(value)


@lru_cache(4096)
def _exact_float(value: float) -> int | Fraction | Unknown:
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN
        return _uncomputable(value)
    return _reduced(Fraction(Decimal(repr(value))))


def _uncomputable(value: float | Decimal) -> Unknown:
    problem = "a number has too many digits" if Decimal(value).is_finite() else f"{value} is not a finite number"
    return Unknown(problem)


def _reduced(value: Fraction) -> int | Fraction:
    return value.numerator if value.denominator == 1 else value


def mismatch(left: Any, right: Any) -> Unknown:
    """The cause for two values that cannot be compared."""
    if type(left) is Unknown:
        return (left & right if type(right) is Unknown else left).unbounded
    if type(right) is Unknown:
        return right.unbounded
    for value in (left, right):
        if kind_of(value) is None:
            return null_or_invalid(value)
    return Unknown(f"a {kind_name(left)} and a {kind_name(right)} cannot be compared")


def null_or_invalid(value: Any) -> Unknown:
    return Unknown(
        "a value is null" if value is None else f"a value of type {type(value).__name__!r} is not a JSON value"
    )


def equal(left: Any, right: Any) -> Truth:
    """Whether two values of one kind are equal: numbers exactly, lists and mappings by their elements."""
    if type(left) is type(right) and type(left) in PLAIN:
        return left == right  # type: ignore[no-any-return]
    kind = kind_of(left)
    if kind is None or kind != kind_of(right):
        if _are_sets(left, right):
            return conjunction((at_most(left, right), at_most(right, left)))
        first, second = as_read(left), as_read(right)
        if first is not left or second is not right:
            return equal(first, second)
        apart = _is_less(left, right) is True or _is_less(right, left) is True
        return False if apart else mismatch(left, right)
    if kind == "number":
        first, second = exact(left), exact(right)
        if type(first) is Unknown or type(second) is Unknown:
            return mismatch(first, second)
        return first == second
    if kind == "list":
        return len(left) == len(right) and conjunction(equal(*pair) for pair in zip(left, right, strict=True))
    if kind == "mapping":
        return left.keys() == right.keys() and conjunction(equal(left[key], right[key]) for key in left)
    return bool(left == right)


def less(left: Any, right: Any) -> Truth:
    """Whether a number or string is less than another."""
    if type(left) is int and type(right) is int:
        return left < right
    kind = kind_of(left)
    if kind is None or kind != kind_of(right):
        if _are_sets(left, right):
            return conjunction((at_most(left, right), inverse(at_most(right, left))))
        decided = _is_less(left, right)
        return mismatch(left, right) if decided is None else decided
    if kind == "number":
        first, second = exact(left), exact(right)
        if type(first) is Unknown or type(second) is Unknown:
            return mismatch(first, second)
        return first < second  # type: ignore[operator]
    if kind in ("text", "set"):
        return bool(left < right)
    return Unknown(f"a {kind_name(left)} has no order")


def at_most(left: Any, right: Any) -> Truth:
    """Whether a number or string is at most another, or a set is a subset of another."""
    if type(left) is int and type(right) is int:
        return left <= right
    if type(left) is StringSet and type(right) is StringSet:
        return left <= right
    first, second = set_bounds_of(left), set_bounds_of(right)
    if first is not None and second is not None:
        return True if first[1] <= second[0] else mismatch(left, right) if first[0] <= second[1] else False
    return inverse(less(right, left))


def set_bounds_of(value: Any) -> SetBounds | None:
    """The items that a set has, and those that it can have; None for another value."""
    if type(value) is StringSet:
        return value, value
    if type(value) is Unknown and value.bounds is not None and type(value.bounds[0]) is StringSet:
        return value.bounds
    return None


def _are_sets(left: Any, right: Any) -> bool:
    return set_bounds_of(left) is not None and set_bounds_of(right) is not None


def set_of(items: Iterable[Any]) -> StringSet | Unknown:
    """The set of some strings."""
    members = list(items)
    for item in members:
        if type(item) is Unknown:
            return item.unbounded
        if kind_of(item) != "text":
            return Unknown(f"a set contains strings, but there is a {kind_name(item)}")
    return StringSet(map(str, members))


def combine_sets(left: Any, operator: str, right: Any) -> StringSet | Unknown:
    """The union (`|`) or intersection (`&`) of two sets."""
    if type(left) is StringSet and type(right) is StringSet:
        return StringSet(left | right if operator == "|" else left & right)
    if type(left) is Unknown or type(right) is Unknown:
        return _combined_bounds(left, operator, right)
    return Unknown(f"a {kind_name(right if type(left) is StringSet else left)} is not a set")


def _combined_bounds(left: Any, operator: str, right: Any) -> StringSet | Unknown:
    first, second = set_bounds_of(left), set_bounds_of(right)
    unknown = mismatch(left, right)
    if first is None or second is None:
        return unknown.within(None)
    least, most = (
        (bound | other if operator == "|" else bound & other) for bound, other in zip(first, second, strict=True)
    )
    return StringSet(least) if least == most else unknown.within((StringSet(least), StringSet(most)))


def bounds_of(value: Any) -> Bounds | None:
    """The minimum and maximum of a number; None for other values and unbounded numbers."""
    if type(value) is Unknown:
        return None if value.bounds is None or type(value.bounds[0]) is StringSet else value.bounds  # type: ignore[return-value]
    number = exact(value) if kind_of(value) == "number" else None
    return None if number is None or type(number) is Unknown else (number, number)  # type: ignore[return-value]


def _is_less(left: Any, right: Any) -> bool | None:
    """Whether a number is less than another for all values within their bounds; None if it depends."""
    first, second = bounds_of(left), bounds_of(right)
    if first is None or second is None:
        return None
    if first[1] < second[0]:
        return True
    return False if first[0] >= second[1] else None


def contains(item: Any, whole: Any) -> Truth:
    """Whether an item is in a list of scalars of one kind or of lists, or in a set, or a string in a string."""
    kind = kind_of(whole)
    if type(whole) is Unknown and type(item) is str:
        bounds = set_bounds_of(whole)
        if bounds is not None:
            return True if item in bounds[0] else whole.within(None) if item in bounds[1] else False
    if kind == "list":
        return _in_list(item, whole)
    if kind in ("text", "set"):
        return item in whole if kind_of(item) == "text" else mismatch(item, "")
    if kind == "mapping":
        return NOT_IN_MAPPING
    return mismatch(item, whole) if kind is None else Unknown(f"a {kind_name(whole)} is not a list, a string or a set")


def _in_list(item: Any, whole: Sequence[Any]) -> Truth:
    types = set(map(type, whole))
    if len(types) == 1 and types <= PLAIN and type(item) in types:  # the common case
        return item in whole
    if Unknown in types:  # its kind is unknown too
        return next(entry for entry in whole if type(entry) is Unknown)
    if not is_searchable(whole):
        return NOT_IN_MIXED
    if "list" in map(kind_of, whole) and kind_of(item) != "list":
        return item.unbounded if type(item) is Unknown else NOT_IN_MIXED
    return disjunction(equal(item, entry) for entry in whole)


def is_searchable(items: Sequence[Any]) -> bool:
    """Whether a list contains scalars of one kind, or lists, apart from nulls."""
    kinds = {kind_of(item) for item in items if item is not None}
    return not kinds or (len(kinds) == 1 and kinds <= SEARCHED)


SCALARS = frozenset({"text", "number", "truth value"})
SEARCHED = SCALARS | {"list"}
NOT_IN_MAPPING = Unknown(
    "'in' does not search a mapping; write 'mentions(value, x)' for its strings, or 'x in keys(value)' for its keys"
)
NOT_IN_MIXED = Unknown(
    "'in' only searches a list of scalars of one kind, or of lists; "
    "write 'mentions(value, x)', or 'any(y in value, y == x)'"
)


def conjunction(values: Iterable[Any]) -> Truth:
    """Kleene's *and*: false if any is false, else unknown if any is."""
    return _folded(values, decisive=False)


def disjunction(values: Iterable[Any]) -> Truth:
    """Kleene's *or*: true if any is true, else unknown if any is."""
    return _folded(values, decisive=True)


def _folded(values: Iterable[Any], *, decisive: bool) -> Truth:
    neutral, unknown = not decisive, None
    for value in values:
        if value is neutral:
            continue
        if type(value) is bool:
            return decisive
        why = not_boolean(value)
        unknown = why if unknown is None else unknown & why
    return neutral if unknown is None else unknown


def count_of(truths: Iterable[Truth]) -> int | Unknown:
    """The number of true ones; with bounds if some are unknown."""
    sure, unsure, why = 0, 0, Unknown()
    for truth in truths:
        if type(truth) is Unknown:
            unsure, why = unsure + 1, truth if not unsure or (truth.undetermined and not why.undetermined) else why
        else:
            sure += truth is True
    return why.within((sure, sure + unsure)) if unsure else sure


def inverse(value: Any) -> Truth:
    if value is True:
        return False
    return True if value is False else not_boolean(value)


def not_boolean(value: Any) -> Unknown:
    """The unknown truth of a value that is not a boolean."""
    if type(value) is Unknown:
        return value.unbounded
    return (
        null_or_invalid(value) if kind_of(value) is None else Unknown(f"a {kind_name(value)} is neither true nor false")
    )


def arithmetic(left: Any, operator: str, right: Any) -> int | Fraction | str | Unknown:
    """The exact result on two numbers, or two strings joined by `+`; unknown otherwise, and for a division by zero."""
    if kind_of(left) != "number" or kind_of(right) != "number":
        if operator == "+" and kind_of(left) == kind_of(right) == "text":
            return f"{left!s}{right!s}"
        if type(left) is Unknown or type(right) is Unknown:
            return mismatch(left, right).within(_bounds_after(left, operator, right))
        return (
            mismatch(left, right)
            if kind_of(left) != kind_of(right)
            else Unknown(f"a {kind_name(left)} is not a number")
        )
    first, second = exact(left), exact(right)
    if type(first) is Unknown or type(second) is Unknown:
        return mismatch(first, second)
    if type(first) is int and type(second) is int and operator in _WHOLE:
        return _WHOLE[operator](first, second)  # type: ignore[no-any-return]
    if operator in ("/", "%") and second == 0:
        return Unknown("a number is divided by zero")
    return _reduced(Fraction(_OPERATIONS[operator](Fraction(first), Fraction(second))))  # type: ignore[arg-type]


def _bounds_after(left: Any, operator: str, right: Any) -> Bounds | None:
    first, second = bounds_of(left), bounds_of(right)
    if first is None or second is None or operator not in _WHOLE:
        return None
    corners: list[Any] = [arithmetic(bound, operator, other) for bound in first for other in second]
    return min(corners), max(corners)


_WHOLE: dict[str, Callable[[Any, Any], Any]] = {"+": add, "-": sub, "*": mul}
_OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {**_WHOLE, "/": truediv, "%": mod}


def hash_key(value: Any) -> Any:
    """The index key of a value: two values have the same key if and only if they are equal. None: not indexable.

    A string is its own key.
    """
    if type(value) is str:
        return value
    kind = kind_of(value)
    if kind == "text":
        return str(value)
    if kind == "truth value":
        return kind, bool(value)  # True == 1, but is not a number
    if kind == "number":
        number = exact(value)
        return None if type(number) is Unknown else number
    return None


def kind_of_key(key: Any) -> str:
    """The kind of the values with an index key."""
    return "text" if type(key) is str else "truth value" if type(key) is tuple else "number"


# --- fields, items and lengths, also of strings that contain JSON

MAX_TEXT = 4_000_000  # characters of a string that is parsed as JSON
CACHED_TEXT = 20_000  # results for shorter strings are cached


def length(value: Any) -> int | Unknown:
    """The length of a string, a list, a mapping or a set."""
    if kind_of(value) in ("text", "list", "mapping", "set"):
        return len(value)
    return _of_kind(value, "has no length")


def field_of(value: Any, name: str) -> Any:
    """A field of a mapping, or of a string that contains one as JSON."""
    if type(value) is Unknown:
        return value.unbounded
    if kind_of(value) == "text":
        value = parsed(str(value))
        if type(value) is Unknown:
            return value
    if kind_of(value) != "mapping":
        form = as_read(value)
        return _of_kind(value, "has no fields") if form is value else field_of(form, name)
    field = value.get(name)
    return NULL if field is None and name in value else MISSING if field is None else as_read(field)


def item_of(value: Any, index: Any) -> Any:
    """An item of a list by index, or of a mapping by key. A string is parsed as JSON."""
    if type(value) is Unknown or type(index) is Unknown:
        return mismatch(value, index)
    if kind_of(value) == "text":
        value = parsed(str(value))
    if kind_of(value) == "mapping" and kind_of(index) == "text":
        return field_of(value, index)
    form = as_read(value)
    if form is not value:
        return item_of(form, index)
    if kind_of(value) != "list" or kind_of(index) != "number":
        return value if type(value) is Unknown else _of_kind(value, f"cannot be indexed by a {kind_name(index)}")
    number = exact(index)
    if type(number) is not int or not -len(value) <= number < len(value):
        return MISSING
    item = value[number]
    return NULL if item is None else as_read(item)


def _of_kind(value: Any, problem: str) -> Unknown:
    return value.unbounded if type(value) is Unknown else Unknown(f"a {kind_name(value)} {problem}")


MISSING, NULL = Unknown("is missing"), Unknown("is null")
"""The reasons why a field or an item is unknown; messages put the term in front of them."""
UNREADABLE = Unknown("a string is not JSON, or a key appears twice in it")


def unreadable(value: Any) -> Unknown | None:
    """The cause if a value is a string whose fields readers can see differently: not exact JSON, or JSON in JSON."""
    content = parsed(str(value)) if kind_of(value) == "text" else None
    if kind_of(content) == "text":
        return Unknown("a string of JSON contains only another string")
    return content if type(content) is Unknown else None


def parsed(text: str) -> Any:
    """Parses a string as JSON; unknown for invalid JSON and duplicate keys."""
    if len(text) > MAX_TEXT:
        return Unknown("a string is too long to parse as JSON")
    return _parsed_once(text) if len(text) < CACHED_TEXT else _parsed(text)


def _parsed(text: str) -> Any:
    try:
        return json_values.loads(text, parse_float=Decimal)
    except ValueError:
        return UNREADABLE


_parsed_once = lru_cache(256)(_parsed)


# --- instants

MICROSECONDS = 1_000_000
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TICK = dt.timedelta(microseconds=1)
LAST = 253_402_300_800 * MICROSECONDS  # the end of year 9999
_FINE = 2**33  # below, floats are closer than microseconds: at most one whole number of these is a float's decimal
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)(?::(\d\d))?")
EXPECTED = "expected seconds since the epoch, or a date and time with its zone, such as '2026-01-31T12:00:00+00:00'"


def moment_of(value: object) -> int:
    """Returns an instant in microseconds since the epoch.

    Args:
        value: a number of seconds, or a datetime with a zone.

    Raises:
        ValueError: the value is not an instant; with the expectation.
    """
    if type(value) is float and 0 <= value < _FINE and (near := round(value * MICROSECONDS)) / MICROSECONDS == value:
        return near  # the common case
    if isinstance(value, dt.datetime):
        if value.utcoffset() is None:
            raise ValueError(f"{value.isoformat()!r} has no time zone; {EXPECTED}")
        return (value - _EPOCH) // _TICK
    if isinstance(value, int | float | Decimal | Fraction) and type(value) is not bool:
        seconds = exact(value)
        if type(seconds) is not Unknown and 0 <= (moment := round(seconds * MICROSECONDS)) < LAST:  # type: ignore[operator]
            return moment
        raise ValueError(f"{value!r} is not a number of seconds between 1970 and 9999; {EXPECTED}")
    raise ValueError(f"a value of type {type(value).__name__!r} is not an instant; {EXPECTED}")


def parsed_instant(text: str) -> dt.datetime:
    """Reads a date and time with its zone, in ISO 8601.

    Raises:
        ValueError: the text is something else; with the expectation.
    """
    try:
        parsed_instant = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not a date and time; {EXPECTED}") from None
    if parsed_instant.utcoffset() is None:
        raise ValueError(f"{text[:60]!r} has no time zone; {EXPECTED}")
    return parsed_instant


def seconds_of(moment: int) -> int | Fraction:
    """The exact seconds of a moment."""
    whole, rest = divmod(moment, MICROSECONDS)
    return Fraction(moment, MICROSECONDS) if rest else whole


def name_of_zone(zone: dt.tzinfo) -> str:
    """The name of a time zone, such as `Europe/Berlin`, or its offset, such as `+01:00`.

    Raises:
        ValueError: the zone has neither.
    """
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # of zoneinfo, and of pytz
    if isinstance(name, str) and zone_named(name) is not None:
        return name
    if isinstance(zone, dt.timezone):
        return _offset_text(int(zone.utcoffset(None).total_seconds()))
    expected = "a zone of 'zoneinfo', or a 'datetime.timezone'"
    raise ValueError(f"the time zone has the type {type(zone).__name__!r}; expected {expected}")


def _offset_text(seconds: int) -> str:
    if seconds == 0:
        return "UTC"
    hours, rest = divmod(abs(seconds), 3600)
    return f"{'-' if seconds < 0 else '+'}{hours:02}:{rest // 60:02}" + (f":{rest % 60:02}" if rest % 60 else "")


_OF_MACHINE = frozenset({"Factory", "localtime", "posixrules"})


@lru_cache(256)
def zone_named(name: str) -> dt.tzinfo | None:
    """The time zone with this name or offset, or None."""
    if name == "UTC":
        return dt.UTC
    if name in _OF_MACHINE or name.startswith(("posix/", "right/")):  # files beside the zones of some machines
        return None
    try:
        if match := _OFFSET.fullmatch(name):
            sign = -1 if match[1] == "-" else 1
            hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
            return dt.timezone(sign * dt.timedelta(hours=hours, minutes=minutes, seconds=seconds))
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError):  # no such zone, an offset of a day or more, a folder of zones
        return None


def local_time(seconds: Any, zone: str) -> dt.datetime | Unknown:
    """The local date and time of an instant in a zone."""
    zone_info = zone_named(zone)
    if zone_info is None:
        return Unknown(f"there is no time zone {zone!r} on this machine")
    try:
        return (_EPOCH + dt.timedelta(microseconds=round(seconds * MICROSECONDS))).astimezone(zone_info)
    except OverflowError:
        return Unknown("a number is not an instant between the years 1 and 9999")


# --- durations

SECONDS: dict[str, Fraction | int] = {"ms": Fraction(1, 1000), "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
DURATION = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(ms|[smhdw])")


def seconds(number: int | Fraction, unit: str) -> int | Fraction:
    """The seconds of a number of units."""
    seconds = number * Fraction(SECONDS[unit])
    return int(seconds) if seconds.denominator == 1 else seconds


def duration_of(text: str) -> int | Fraction | None:
    """The seconds of a duration; None for other strings."""
    match = DURATION.fullmatch(text)
    return match and seconds(Fraction(match[1]), match[2])
