"""Calls with a name in front of a JSON object: refund{"amount": 5}."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from guardagent.generation.local.formats import PartialCall
from guardagent.generation.local.formats._objects import STYLE, arguments
from guardagent.generation.local.formats.objects import JsonScanner, parse_value
from guardagent.generation.local.tool_schemas import ClosedSchema
from guardagent.types import EMPTY


def named_rules(
    tools: Sequence[ClosedSchema], head: Callable[[str], str], tail: str = "", style: Mapping[str, Any] = STYLE
) -> str:
    """The rule `call`: a head with the name of a tool, its arguments, and a tail.

    Args:
        tools: the tools.
        head: the grammar of the head of a call, given the name of the tool.
        tail: the grammar of the text after the arguments.
        style: the style of the JSON.
    """
    lines = [f"call: {' | '.join(f'call_{at}' for at in range(len(tools)))}"]
    for at, tool in enumerate(tools):
        lines += [f"call_{at}: {head(tool.name)} args_{at} {tail}", f"args_{at}: {arguments(tool, style)}"]
    return "\n".join(lines)


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
        copied = NamedReader.__new__(NamedReader)
        copied.__dict__.update(self.__dict__)
        copied._object = None if self._object is None else self._object.copy()  # noqa: SLF001 - a copy of this
        return copied

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        found: list[PartialCall] = []
        while start < len(text) and not self.is_closed:
            start = self._find_call(text, start, found) if self._object is None else self._read_call(text, start, found)
        return found

    def _find_call(self, text: bytearray, start: int, found: list[PartialCall]) -> int:
        """Advances to the arguments of a call, or to the end of the block."""
        self._between = start if self._between is None else self._between
        head = self._head.match(text, self._between)
        if head is not None:
            self._tool, self._last, self._args = head[1].decode(errors="replace"), head.start(1), EMPTY
            self._object = JsonScanner(1)
            found.append(PartialCall(self._tool, EMPTY, self._last))
            return head.end()
        self.is_closed = bool(self._closing) and text.find(self._closing, self._between) >= 0
        return len(text)

    def _read_call(self, text: bytearray, start: int, found: list[PartialCall]) -> int:
        assert self._object is not None
        for member in self._object.read(text, start, len(text)):
            value = parse_value(text[member.start : member.end])
            if not member.path:
                found.append(PartialCall(self._tool, value, self._last, is_complete=True))
                self._object, self._between, self.is_closed = None, member.end, not self._closing
                return member.end
            self._args, self._last = {**self._args, member.path[0]: value}, member.start
            found.append(PartialCall(self._tool, self._args, self._last))
        return len(text)
