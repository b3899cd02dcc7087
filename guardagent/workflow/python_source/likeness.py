"""Compares objects of a program by their content: two calls of a function make different objects that are alike."""

from __future__ import annotations

from collections.abc import Hashable

from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.programs.scopes import ProgramObject
from guardagent.workflow.python_source.values import Class, Function, PartialFunction, Values, path_of

MOST_DEEP = 12


class Likeness:
    """Computes keys of objects; equal keys mean equal content, from the same places of the program.

    A key has a number, since keys of objects that share parts would grow exponentially. The keys of one `Likeness`
    can be compared with each other.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._numbers: dict[Hashable, int] = {}
        self._seen: dict[int, tuple[object, Hashable]] = {}

    def key(self, value: object, depth: int = 0) -> Hashable:
        """Returns the key of an object; recursive parts count by their types."""
        if value is None or isinstance(value, str | int | float):
            return value
        if id(value) in self._open or depth > MOST_DEEP:
            return type(value).__name__
        if not self._open:
            self._seen = {}  # objects may have changed since the last key
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        self._open.add(id(value))
        try:
            content = self._content(value, depth + 1)
        finally:
            self._open.discard(id(value))
        found = "object", self._numbers.setdefault(content, len(self._numbers))
        self._seen[id(value)] = value, found  # keeps it alive
        return found

    def _content(self, value: object, depth: int) -> Hashable:
        if isinstance(value, Function | Class):
            return id(value.tree)
        if isinstance(value, PartialFunction):
            return self.key(value.function, depth), self.key(value.arguments, depth)
        if isinstance(value, Values):
            return tuple(self.key(one, depth) for one in value.known), value.complete
        if isinstance(value, list | tuple):
            return tuple(self.key(one, depth) for one in value)
        if isinstance(value, ProgramObject):
            place = getattr(value, "file", ""), getattr(value, "line", 0)
            return type(value).__name__, place, self.key(value.attributes, depth)
        if isinstance(value, Interpreter):
            return ""
        fields = value if isinstance(value, dict) else self._fields(value)
        pairs = [(str(name), self.key(one, depth)) for name, one in fields.items() if name != "parent_agent"]
        return type(value).__name__, path_of(value), *pairs

    def _fields(self, value: object) -> dict[str, object]:
        own = type(value).__module__.startswith("guardagent.") and hasattr(value, "__dict__")
        return {name: one for name, one in vars(value).items() if name != "notes"} if own else {}
