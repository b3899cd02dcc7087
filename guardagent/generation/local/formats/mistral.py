"""The format of Mistral models: a list or, if the tokenizer has `[ARGS]`, calls with the name before the arguments.

[TOOL_CALLS] [{"name": "refund", "arguments": {"amount": 5}}]
[TOOL_CALLS]refund[ARGS]{"amount": 5}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from guardagent.generation.local.formats import BlockReader, LiteralWriter, PartialCall
from guardagent.generation.local.formats._objects import ObjectReader, arguments, call_rules
from guardagent.generation.local.json_scanner import JsonScanner, parse_value
from guardagent.generation.local.tool_schemas import ClosedSchema
from guardagent.types import EMPTY

_OPENING, _ARGS, _ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_SOME_ID = "/[a-zA-Z0-9]{9}/"
_NAME = re.compile(rb"(.*?)(?:\[CALL_ID\].*?)?\[ARGS\]", re.DOTALL)


class Mistral:
    longest = len(_OPENING)
    is_parallel = True
    forced = _OPENING

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return _OPENING in template or _OPENING in tokens

    def opening(self, text: bytearray, since: int) -> tuple[int, int] | None:
        at = text.find(_OPENING.encode(), since)
        return None if at < 0 else (at, at + len(_OPENING))

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        if _ARGS in tokens:
            return _named_grammar(tools, literal, with_id=_ID in tokens)
        with_id = f'(", \\"id\\": \\"" {_SOME_ID} "\\"")?'
        return f'block: " "? "[" call (", " call)* "]"\n{call_rules(tools, "arguments", with_id)}'

    def reader(self) -> BlockReader:
        return _EitherReader()


def _named_grammar(tools: Sequence[ClosedSchema], literal: LiteralWriter, *, with_id: bool) -> str:
    of_id = f"({literal(_ID)} {_SOME_ID})?" if with_id else ""
    lines = [f"block: {' | '.join(f'call_{at}' for at in range(len(tools)))}"]
    for at, tool in enumerate(tools):
        lines += [f"call_{at}: {literal(tool.name)} {of_id} {literal(_ARGS)} args_{at}"]
        lines += [f"args_{at}: {arguments(tool)}"]
    return "\n".join(lines)


class _EitherReader:
    """Chooses the parser of a block by its first byte after spaces."""

    def __init__(self) -> None:
        self._reader: ObjectReader | _NamedReader | None = None

    @property
    def is_closed(self) -> bool:
        return self._reader is not None and self._reader.is_closed

    def copy(self) -> _EitherReader:
        copied = _EitherReader()
        copied._reader = None if self._reader is None else self._reader.copy()
        return copied

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        while self._reader is None and start < len(text) and text[start] == ord(" "):
            start += 1
        if self._reader is None and start < len(text):
            is_list = text[start] == ord("[")
            self._reader = ObjectReader("arguments", b"]") if is_list else _NamedReader(start)
        return [] if self._reader is None else self._reader.read(text, start)


class _NamedReader:
    """Parses one call with the name before the arguments.

    Args:
        start: the offset of the name.
    """

    def __init__(self, start: int) -> None:
        self.is_closed = False
        self._start = self._last = start
        self._tool = ""
        self._args: Mapping[str, Any] = EMPTY
        self._object: JsonScanner | None = None  # None until the name is complete

    def copy(self) -> _NamedReader:
        copied = _NamedReader.__new__(_NamedReader)
        copied.__dict__.update(self.__dict__)
        copied._object = None if self._object is None else self._object.copy()  # noqa: SLF001 - a copy of this
        return copied

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        found: list[PartialCall] = []
        if self._object is None:
            name = _NAME.match(text, self._start)
            if name is None:
                return []
            self._tool, self._object, start = name[1].decode(errors="replace"), JsonScanner(1), name.end()
            found.append(PartialCall(self._tool, EMPTY, self._start))
        members = self._object.read(text, start, len(text))
        return found + [self._member(parse_value(text[one.start : one.end]), one.path, one.start) for one in members]

    def _member(self, value: Any, path: tuple[str, ...], start: int) -> PartialCall:
        if not path:
            self.is_closed = True
            return PartialCall(self._tool, value, self._last, is_complete=True)
        self._args, self._last = {**self._args, path[0]: value}, start
        return PartialCall(self._tool, self._args, start)


FORMAT = Mistral()
