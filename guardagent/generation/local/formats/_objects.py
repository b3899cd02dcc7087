"""Calls in the form of JSON objects: {"name": "refund", "arguments": {"amount": 5}}."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from guardagent.generation.local.formats import PartialCall
from guardagent.generation.local.formats.objects import JsonMember, JsonScanner, MalformedCall, parse_value
from guardagent.generation.local.tool_schemas import ClosedSchema
from guardagent.types import EMPTY

STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON as chat templates write it. Free whitespace would give each call infinitely many spellings."""
EITHER_STYLE = {"whitespace_flexible": False, "item_separator": ",[ ]?", "key_separator": ":[ ]?"}
"""JSON as templates write it, or without spaces."""


def arguments(tool: ClosedSchema, style: Mapping[str, Any] = STYLE) -> str:
    """The grammar of a tool's arguments."""
    return json_grammar(tool.schema, style)


def json_grammar(schema: Mapping[str, Any], style: Mapping[str, Any] = STYLE) -> str:
    """The grammar of the JSON values that a schema allows."""
    return f"%json {json.dumps({**schema, 'x-guidance': style})}"


def quoted(text: str) -> str:
    """A string as a literal of the grammar."""
    return json.dumps(text, ensure_ascii=False)


def call_rules(tools: Sequence[ClosedSchema], key: str, tail: str = "") -> str:
    """The rule `call`: an object with the name of a tool, and its arguments under a key."""
    return object_rules(tools, lambda name: quoted(f'{{"name": {quoted(name)}, {quoted(key)}: '), tail)


def object_rules(tools: Sequence[ClosedSchema], head: Callable[[str], str], tail: str = "") -> str:
    """The rule `call`: the head of an object, the arguments of a tool, and the tail of the object.

    Args:
        tools: the tools.
        head: the grammar of the head of a call, given the name of the tool.
        tail: the grammar between the arguments and the closing brace.
    """
    lines = [f"call: {' | '.join(f'call_{at}' for at in range(len(tools)))}"]
    for at, tool in enumerate(tools):
        lines += [f'call_{at}: {head(tool.name)} args_{at} {tail} "}}"', f"args_{at}: {arguments(tool)}"]
    return "\n".join(lines)


class ObjectReader:
    """Parses a sequence of calls.

    Args:
        key: the key of the arguments.
        closing: the end mark of the block; empty if only the end of the turn ends it.
        name_key: the key of the name.
    """

    def __init__(self, key: str, closing: bytes = b"", name_key: str = "name") -> None:
        self.is_closed = False
        self._key, self._name_key, self._closing = key, name_key, closing
        self._call: JsonScanner | None = None  # None between calls
        self._between: int | None = None  # the start of the text between calls
        self._tool, self._last = "", 0
        self._args: Mapping[str, Any] = EMPTY

    def copy(self) -> ObjectReader:
        copied = ObjectReader.__new__(ObjectReader)
        copied.__dict__.update(self.__dict__)
        copied._call = None if self._call is None else self._call.copy()  # noqa: SLF001 - a copy of this
        return copied

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        found: list[PartialCall] = []
        while start < len(text) and not self.is_closed:
            start = (
                self._find_call(text, start) if self._call is None else self._read_call(self._call, text, start, found)
            )
        return found

    def _find_call(self, text: bytearray, at: int) -> int:
        """Advances to the start of a call, or to the end of the block."""
        if text[at] == ord("{"):
            self._call, self._tool, self._args, self._between = JsonScanner(2), "", EMPTY, None
            return at
        self._between = at if self._between is None else self._between
        self.is_closed = bool(self._closing) and text.endswith(self._closing, self._between, at + 1)
        return at + 1

    def _read_call(self, call: JsonScanner, text: bytearray, start: int, found: list[PartialCall]) -> int:
        for member in call.read(text, start, len(text)):
            if not member.path:
                self._call = None
                found.append(self._complete_call(parse_value(text[member.start : member.end])))
                return member.end
            found += self._partial_call(member, text)
        return len(text)

    def _partial_call(self, member: JsonMember, text: bytearray) -> list[PartialCall]:
        if member.path == (self._name_key,):
            self._tool = _name(parse_value(text[member.start : member.end]))
        elif len(member.path) == 2 and member.path[0] == self._key:
            self._args = {**self._args, member.path[1]: parse_value(text[member.start : member.end])}
        else:
            return []
        self._last = member.start
        return [PartialCall(self._tool, self._args, member.start)]

    def _complete_call(self, call: Any) -> PartialCall:
        args = call.get(self._key)
        if not isinstance(args, dict):
            raise MalformedCall(f"the arguments of {self._tool!r} are not an object")
        return PartialCall(_name(call.get(self._name_key)), args, self._last, is_complete=True)


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise MalformedCall("the name of the tool is not a string")
    return value
