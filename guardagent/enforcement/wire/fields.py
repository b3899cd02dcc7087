"""Reads the fields of JSON objects: each field once, with its type, and no others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from guardagent.errors import InputError, name_hint

T = TypeVar("T")
_MISSING: Any = object()
_NAMES = {str: "a string", bool: "true or false", int: "a whole number", dict: "an object", list: "a list"}


class WireError(InputError):
    """A message has not the expected form.

    Attributes:
        where: the path of the invalid part, such as `call.args.amount`; empty for the whole message.
        problem: what is wrong and what was expected.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}" if where else problem)
        self.where, self.problem = where, problem


class Fields:
    """The fields of one JSON object. Each method reads one; `end` refuses those that nobody has read.

    Args:
        value: the result of `loads`.
        where: the path of the object.

    Raises:
        WireError: it is no object.
    """

    def __init__(self, value: Any, where: str = "") -> None:
        self._where = where
        self._values: dict[str, Any] = self._typed(value, dict, where)
        self._read: set[str] = set()

    def string(self, name: str, default: Any = _MISSING) -> Any:
        """Reads a string; one with a default may be missing, and null if that is None."""
        return self._scalar(name, str, default)

    def boolean(self, name: str, default: Any = _MISSING) -> Any:
        """Reads true or false; as `string`."""
        return self._scalar(name, bool, default)

    def integer(self, name: str, default: Any = _MISSING) -> Any:
        """Reads an integer; as `string`."""
        return self._scalar(name, int, default)

    def number(self, name: str, default: Any = _MISSING) -> Any:
        """Reads an integer or a float; as `string`."""
        value = self.value(name, default)
        if value is not default and type(value) not in (int, float):
            raise WireError(self.place(name), f"is {shown(value)}; expected a number")
        return value

    def choice(self, name: str, choices: Collection[str], default: Any = _MISSING) -> Any:
        """Reads one of some strings."""
        value = self.string(name, default)
        if value is not default and value not in choices:
            raise WireError(self.place(name), f"is {shown(value)}; expected one of {', '.join(choices)}")
        return value

    def object(self, name: str, default: Any = _MISSING) -> Any:
        """Reads an object, as it is."""
        return self._scalar(name, dict, default)

    def items(self, name: str, read: Callable[[Any, str], T], default: Any = _MISSING) -> Any:
        """Reads a list with a reader of its items, which gets each item and its path. Returns a tuple."""
        value = self._scalar(name, list, default)
        if value is default:
            return default
        return tuple(read(item, f"{self.place(name)}[{at}]") for at, item in enumerate(value))

    def strings(self, name: str, default: Any = _MISSING) -> Any:
        """Reads a list of strings. Returns a tuple."""
        return self.items(name, lambda item, where: self._typed(item, str, where), default)

    def value(self, name: str, default: Any = _MISSING) -> Any:
        """Reads any value, as it is."""
        self._read.add(name)
        if name in self._values:
            return self._values[name]
        if default is _MISSING:
            raise WireError(self._where, f"the field {name!r} is missing")
        return default

    def place(self, name: str) -> str:
        """Returns the path of a field."""
        return below(self._where, name)

    def end(self) -> None:
        """Refuses unknown fields.

        Raises:
            WireError: there is one.
        """
        unknown = self._values.keys() - self._read
        if unknown:
            name = min(unknown)
            raise WireError(self.place(name[:60]), f"unknown field{name_hint(name[:60], self._read)}")

    def _scalar(self, name: str, kind: type, default: Any) -> Any:
        value = self.value(name, default)
        return value if value is default else self._typed(value, kind, self.place(name))

    @staticmethod
    def _typed(value: Any, kind: type, where: str) -> Any:
        if type(value) is not kind:
            raise WireError(where, f"is {shown(value)}; expected {_NAMES[kind]}")
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
