"""Calls in the form of JSON objects, such as {"name": "refund", "arguments": {"amount": 5}}, read as they are written.

The scanner reports the members of an object as they are completed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from guardagent._support import json_values
from guardagent.errors import InputError
from guardagent.generation.local.formats import Format, LiteralWriter, PartialCall
from guardagent.generation.local.tool_schemas import ClosedSchema
from guardagent.types import EMPTY

_SPACE = b" \t\n\r"
_QUOTE, _BACKSLASH, _COMMA, _COLON = b'"\\,:'
_OPEN, _CLOSE = b"{[", b"}]"


class MalformedCall(ValueError):  # noqa: N818 - a property of the text
    """The generated text is not JSON that can be judged."""


class Phase(Enum):
    KEY = 1
    COLON = 2
    VALUE = 3
    AFTER = 4


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A complete value: the keys that lead to it (none for the object itself), and its offsets."""

    path: tuple[str, ...]
    start: int
    end: int


@dataclass(slots=True)
class JsonScanner:
    """The scanner state for one object. It relies on the grammar for validity, and is small, so that copies are cheap.

    Attributes:
        levels: the depth to which members are reported: 1 for those of the object itself only.
    """

    levels: int
    depth: int = 0
    path: tuple[str, ...] = ()
    starts: tuple[int, ...] = ()
    phase: Phase = Phase.VALUE
    skipped_depth: int = 0  # the depth of the outermost list or of an object below `levels`; 0 outside
    in_string: bool = False
    escaped: bool = False
    in_scalar: bool = False  # within a number, true, false or null

    def copy(self) -> JsonScanner:
        return JsonScanner(
            self.levels, self.depth, self.path, self.starts, self.phase, self.skipped_depth, self.in_string,
            self.escaped, self.in_scalar,
        )  # fmt: skip

    def read(self, text: bytes | bytearray, start: int, end: int) -> Iterator[JsonMember]:
        """Scans on, at most to the end of the object, and yields each completed member.

        Raises:
            MalformedCall: a key is not a valid string.
        """
        for at in range(start, end):
            yield from self._byte(text, at, text[at])
            if self.is_complete:
                return

    @property
    def is_complete(self) -> bool:
        return self.phase is Phase.AFTER and not self.depth

    def _byte(self, text: bytes | bytearray, at: int, byte: int) -> Iterator[JsonMember]:
        if self.in_string:
            yield from self._string_byte(text, at, byte)
        elif byte == _QUOTE:
            self.in_string = True
            self._begin_value(at)
        elif byte in _OPEN:
            self._begin_value(at)
            self._open(byte)
        elif byte in _CLOSE or byte == _COMMA:
            yield from self._close(at, byte)
        elif byte == _COLON:
            self.phase = Phase.VALUE if not self.skipped_depth else self.phase
        elif byte in _SPACE:
            yield from self._end_scalar(at)
        elif not self.in_scalar and not self.skipped_depth:
            self._begin_value(at)
            self.in_scalar = True

    def _string_byte(self, text: bytes | bytearray, at: int, byte: int) -> Iterator[JsonMember]:
        if self.escaped:
            self.escaped = False
        elif byte == _BACKSLASH:
            self.escaped = True
        elif byte == _QUOTE:
            self.in_string = False
            if not self.skipped_depth:
                yield from self._end_string(text, at)

    def _end_string(self, text: bytes | bytearray, at: int) -> Iterator[JsonMember]:
        if self.phase is Phase.KEY:
            self.path = (*self.path, parse_value(text[self.starts[-1] : at + 1]))
            self.starts = self.starts[:-1]
            self.phase = Phase.COLON
        else:
            yield self._complete(at + 1)

    def _begin_value(self, at: int) -> None:
        if not self.skipped_depth and self.phase is not Phase.COLON:
            self.starts = (*self.starts, at)

    def _open(self, byte: int) -> None:
        self.depth += 1
        if self.skipped_depth:
            return
        if byte == _OPEN[0] and self.depth <= self.levels:
            self.phase = Phase.KEY
        else:
            self.skipped_depth = self.depth

    def _close(self, at: int, byte: int) -> Iterator[JsonMember]:
        if byte == _COMMA:
            yield from self._end_scalar(at)
            self.phase = Phase.KEY if not self.skipped_depth else self.phase
            return
        if not self.skipped_depth:
            yield from self._end_scalar(at)
        self.depth -= 1
        if not self.skipped_depth or self.depth < self.skipped_depth:
            self.skipped_depth = 0
            yield self._complete(at + 1)

    def _end_scalar(self, at: int) -> Iterator[JsonMember]:
        if self.in_scalar and not self.skipped_depth:
            self.in_scalar = False
            yield self._complete(at)

    def _complete(self, end: int) -> JsonMember:
        """Reports a complete value, and drops its start and key."""
        member = JsonMember(self.path, self.starts[-1], end)
        self.path, self.starts, self.phase = self.path[:-1], self.starts[:-1], Phase.AFTER
        return member


def parse_value(text: bytes | bytearray) -> Any:
    """Parses a piece of JSON strictly.

    Raises:
        MalformedCall: it is not valid JSON, a key appears twice, or it is nested too deeply.
    """
    try:
        return json_values.loads(text)
    except ValueError as error:
        raise MalformedCall(str(error)) from None


# --- calls

STYLE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""JSON as chat templates write it. Free whitespace would give each call infinitely many spellings."""
EITHER_STYLE = {"whitespace_flexible": False, "item_separator": ",[ ]?", "key_separator": ":[ ]?"}
"""JSON as templates write it, or without spaces."""


def json_grammar(schema: Mapping[str, Any], style: Mapping[str, Any] = STYLE) -> str:
    """The grammar of the JSON values that a schema allows."""
    return f"%json {json.dumps({**schema, 'x-guidance': style})}"


def quoted(text: str) -> str:
    """A string as a literal of the grammar."""
    return json.dumps(text, ensure_ascii=False)


def check_names(tools: Sequence[ClosedSchema], allowed: str, *, of_arguments: bool = False) -> None:
    """Checks that a format without quotes can write the names of the tools.

    Args:
        tools: the tools.
        allowed: the pattern of names.
        of_arguments: whether to check the names of their arguments too.

    Raises:
        InputError: it cannot write one of them.
    """
    for tool in tools:
        for name in (tool.name, *(tool.schema["properties"] if of_arguments else ())):
            if not re.fullmatch(allowed, name):
                raise InputError(
                    f"the tool format cannot write the name {name!r} of {tool.name!r}; expected one that matches "
                    f"{allowed}"
                )


_PLACE = re.compile(r"«(.*?)»|\$(name|json|key)")


def filled(template: str, literal: LiteralWriter, name: str = "", key: str = "") -> str:
    """The grammar of a template.

    Args:
        template: a grammar in which `«mark»` is a mark, `$name` the name of a tool within a literal, `$json` that name
            as JSON within a literal, and `$key` the rule of the name of an argument.
        literal: writes the marks.
        name: the name of the tool.
        key: the rule of the name of an argument.
    """
    values = {"name": quoted(name)[1:-1], "json": quoted(quoted(name))[1:-1], "key": key}
    return _PLACE.sub(
        lambda place: values[place[2]] if place[2] else literal(name if place[1] == "$name" else place[1]), template
    )


def call_rule(tools: Sequence[ClosedSchema]) -> str:
    """The rule `call`, from a rule for each tool."""
    return f"call: {' | '.join(f'call_{at}' for at in range(len(tools)))}"


def json_calls(
    block: str, head: str, tail: str = '"}"', *, style: Mapping[str, Any] = STYLE, names: str = ""
) -> Callable[[Sequence[ClosedSchema], Collection[str], LiteralWriter], str]:
    """The grammar of calls with their arguments as a JSON object.

    Args:
        block: the template of a block, from the rule `call`, and further rules.
        head: the template of a call up to its arguments.
        tail: the template of the text after the arguments.
        style: the style of the JSON.
        names: a pattern of the names that can be written; empty if all can.
    """

    def grammar(tools: Sequence[ClosedSchema], _: Collection[str], literal: LiteralWriter) -> str:
        if names:
            check_names(tools, names)
        lines = [f"block: {filled(block, literal)}", call_rule(tools)]
        for at, tool in enumerate(tools):
            lines += [
                f"call_{at}: {filled(head, literal, tool.name)} args_{at} {filled(tail, literal)}",
                f"args_{at}: {json_grammar(tool.schema, style)}",
            ]
        return "\n".join(lines)

    return grammar


def object_format(
    mark: str, block: str, *, key: str = "arguments", closing: str = "", head: str = "", name_key: str = "name",
    **options: Any,
) -> Format:  # fmt: skip
    """A format of calls as JSON objects.

    Args:
        mark: the mark that opens a block.
        block: the template of a block.
        key: the key of the arguments.
        closing: the end mark of the block; empty if only the end of the turn ends it.
        head: the template of a call up to its arguments; by default it has the two keys.
        name_key: the key of the name.
        options: those of `Format`.
    """
    head = head or rf'"{{\"{name_key}\": $json, \"{key}\": "'
    return Format(mark, json_calls(block, head), lambda _: ObjectReader(key, closing.encode(), name_key), **options)


_Reader = TypeVar("_Reader")


def copied(reader: _Reader) -> _Reader:
    """Copies a reader, not what its attributes hold."""
    copy = reader.__new__(type(reader))
    copy.__dict__.update(reader.__dict__)
    return copy


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
        copy = copied(self)
        copy._call = None if self._call is None else self._call.copy()  # noqa: SLF001 - a copy of this
        return copy

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        calls: list[PartialCall] = []
        while start < len(text) and not self.is_closed:
            start = (
                self._find_call(text, start) if self._call is None else self._read_call(self._call, text, start, calls)
            )
        return calls

    def _find_call(self, text: bytearray, at: int) -> int:
        """Advances to the start of a call, or to the end of the block."""
        if text[at] == ord("{"):
            self._call, self._tool, self._args, self._between = JsonScanner(2), "", EMPTY, None
            return at
        self._between = at if self._between is None else self._between
        self.is_closed = bool(self._closing) and text.endswith(self._closing, self._between, at + 1)
        return at + 1

    def _read_call(self, call: JsonScanner, text: bytearray, start: int, partial_calls: list[PartialCall]) -> int:
        for member in call.read(text, start, len(text)):
            if not member.path:
                self._call = None
                partial_calls.append(self._complete_call(parse_value(text[member.start : member.end])))
                return member.end
            partial_calls += self._partial_call(member, text)
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


class NamedReader:
    """Parses a sequence of calls.

    Args:
        head: a pattern of the text from the end of the last call to the arguments, with the name as its group.
        start: the offset of the block.
        closing: the end mark of the block; empty if the first call ends it.
    """

    def __init__(self, head: re.Pattern[bytes], start: int | None = None, closing: bytes = b"") -> None:
        self.is_closed = False
        self._head, self._closing = head, closing
        self._between = start  # the start of the text between calls; None before the first byte
        self._object: JsonScanner | None = None  # None between calls
        self._tool, self._last = "", 0
        self._args: Mapping[str, Any] = EMPTY

    def copy(self) -> NamedReader:
        copy = copied(self)
        copy._object = None if self._object is None else self._object.copy()  # noqa: SLF001 - a copy of this
        return copy

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        calls: list[PartialCall] = []
        while start < len(text) and not self.is_closed:
            start = self._find_call(text, start, calls) if self._object is None else self._read_call(text, start, calls)
        return calls

    def _find_call(self, text: bytearray, start: int, partial_calls: list[PartialCall]) -> int:
        """Advances to the arguments of a call, or to the end of the block."""
        self._between = start if self._between is None else self._between
        head = self._head.match(text, self._between)
        if head is not None:
            self._tool, self._last, self._args = head[1].decode(errors="replace"), head.start(1), EMPTY
            self._object = JsonScanner(1)
            partial_calls.append(PartialCall(self._tool, EMPTY, self._last))
            return head.end()
        self.is_closed = bool(self._closing) and text.find(self._closing, self._between) >= 0
        return len(text)

    def _read_call(self, text: bytearray, start: int, partial_calls: list[PartialCall]) -> int:
        assert self._object is not None
        for member in self._object.read(text, start, len(text)):
            value = parse_value(text[member.start : member.end])
            if not member.path:
                partial_calls.append(PartialCall(self._tool, value, self._last, is_complete=True))
                self._object, self._between, self.is_closed = None, member.end, not self._closing
                return member.end
            self._args, self._last = {**self._args, member.path[0]: value}, member.start
            partial_calls.append(PartialCall(self._tool, self._args, self._last))
        return len(text)


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise MalformedCall("the name of the tool is not a string")
    return value
