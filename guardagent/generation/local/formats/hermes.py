"""The format of Hermes, Qwen 2.5 and 3, and many others, with each call in a block of its own:

<tool_call>
{"name": "refund", "arguments": {"amount": 5}}
</tool_call>
"""  # noqa: D415 - it ends with what it describes

from __future__ import annotations

from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._marked import MarkedFormat
from guardagent.generation.local.formats._objects import ObjectReader, call_rules
from guardagent.generation.local.tool_schemas import ClosedSchema

_CLOSING = "</tool_call>"
_OTHER_FORMATS = ("<function=", "<arg_key>")  # with the same mark


class Hermes(MarkedFormat):
    mark = "<tool_call>"

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        if any(mark in template or mark in tokens for mark in _OTHER_FORMATS):
            return False
        return super().fits(template, tokens)

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        return f'block: "\\n"? call "\\n"? {literal(_CLOSING)}\n{call_rules(tools, "arguments")}'

    def reader(self, tools: Sequence[ClosedSchema]) -> ObjectReader:  # noqa: ARG002 - see the protocol
        return ObjectReader("arguments", _CLOSING.encode())


FORMAT = Hermes()
