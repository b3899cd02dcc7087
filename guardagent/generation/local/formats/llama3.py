"""The format of Llama 3: one object, or several separated by `; `, optionally after `<|python_tag|>`.

    {"name": "refund", "parameters": {"amount": 5}}

A turn that begins with a brace is treated as a call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._objects import ObjectReader, call_rules
from guardagent.generation.local.tool_schemas import ClosedSchema

_TAG = "<|python_tag|>"
_BRACE = re.compile(rb"\s*\{")


class Llama3:
    longest = len(_TAG)
    is_parallel = False
    forced = ""

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return _TAG in template or _TAG in tokens

    def opening(self, text: bytearray, since: int) -> tuple[int, int] | None:
        if brace := _BRACE.match(text):
            return brace.end() - 1, brace.end() - 1
        at = text.find(_TAG.encode(), since)
        return None if at < 0 else (at, at + len(_TAG))

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        return f'block: call ("; " call)*\n{call_rules(tools, "parameters")}'

    def reader(self) -> ObjectReader:
        return ObjectReader("parameters")


FORMAT = Llama3()
