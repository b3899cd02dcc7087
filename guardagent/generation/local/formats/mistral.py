"""The format of Mistral models: a list or, if the tokenizer has `[ARGS]`, calls with the name before the arguments.

[TOOL_CALLS] [{"name": "refund", "arguments": {"amount": 5}}]
[TOOL_CALLS]refund[ARGS]{"amount": 5}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import BlockReader, LiteralWriter, PartialCall
from guardagent.generation.local.formats._marked import MarkedFormat
from guardagent.generation.local.formats._objects import ObjectReader, call_rules
from guardagent.generation.local.formats.models import NamedReader, named_rules
from guardagent.generation.local.tool_schemas import ClosedSchema

_ARGS, _ID = "[ARGS]", "[CALL_ID]"
_SOME_ID = "/[a-zA-Z0-9]{9}/"
_HEAD = re.compile(rb"(.*?)(?:\[CALL_ID\].*?)?\[ARGS\]", re.DOTALL)


class Mistral(MarkedFormat):
    mark = "[TOOL_CALLS]"
    is_parallel = True

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        if _ARGS in tokens:
            of_id = f"({literal(_ID)} {_SOME_ID})?" if _ID in tokens else ""
            return f"block: call\n{named_rules(tools, lambda name: f'{literal(name)} {of_id} {literal(_ARGS)}')}"
        with_id = f'(", \\"id\\": \\"" {_SOME_ID} "\\"")?'
        return f'block: " "? "[" call (", " call)* "]"\n{call_rules(tools, "arguments", with_id)}'

    def reader(self, tools: Sequence[ClosedSchema]) -> BlockReader:  # noqa: ARG002 - see the protocol
        return _EitherReader()


class _EitherReader:
    """Chooses the parser of a block by its first byte after spaces."""

    def __init__(self) -> None:
        self._reader: ObjectReader | NamedReader | None = None

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
            self._reader = ObjectReader("arguments", b"]") if is_list else NamedReader(_HEAD, start)
        return [] if self._reader is None else self._reader.read(text, start)


FORMAT = Mistral()
