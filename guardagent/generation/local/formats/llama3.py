"""The format of Llama 3: one object, or several separated by `; `, optionally after `<|python_tag|>`.

    {"name": "refund", "parameters": {"amount": 5}}

A turn that begins with a brace is treated as a call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._marked import MarkedFormat
from guardagent.generation.local.formats._objects import ObjectReader, call_rules
from guardagent.generation.local.tool_schemas import ClosedSchema

_BRACE = re.compile(rb"\s*\{")
_PYTHONIC = "[func_name1("


class Llama3(MarkedFormat):
    mark = "<|python_tag|>"

    @property
    def forced(self) -> str:
        return ""

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return _PYTHONIC not in template and super().fits(template, tokens)

    def opening(self, text: bytearray, since: int, begin: int | None) -> tuple[int, int] | None:
        if begin is not None and (brace := _BRACE.match(text, begin)):
            return brace.end() - 1, brace.end() - 1
        return super().opening(text, since, begin)

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        return f'block: call ("; " call)*\n{call_rules(tools, "parameters")}'

    def reader(self, tools: Sequence[ClosedSchema]) -> ObjectReader:  # noqa: ARG002 - see the protocol
        return ObjectReader("parameters")


FORMAT = Llama3()
