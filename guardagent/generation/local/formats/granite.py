"""The format of IBM's Granite 3, a list that ends the turn (Granite 4 uses that of Hermes):

<|tool_call|>[{"name": "refund", "arguments": {"amount": 5}}]
"""  # noqa: D415 - it ends with what it describes

from __future__ import annotations

from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._marked import MarkedFormat
from guardagent.generation.local.formats._objects import ObjectReader, call_rules
from guardagent.generation.local.tool_schemas import ClosedSchema

_PHI_4 = "<|/tool_call|>"  # of a model that has the same mark, and calls of another form


class Granite(MarkedFormat):
    mark = "<|tool_call|>"
    is_parallel = True

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        if "<tool_call>" in template or _PHI_4 in template or _PHI_4 in tokens:
            return False
        return super().fits(template, tokens)

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        return f'block: "\\n"? "[" call (", " call)* "]"\n{call_rules(tools, "arguments")}'

    def reader(self, tools: Sequence[ClosedSchema]) -> ObjectReader:  # noqa: ARG002 - see the protocol
        return ObjectReader("arguments", b"]")


FORMAT = Granite()
