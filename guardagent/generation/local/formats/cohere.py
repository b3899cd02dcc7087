"""The format of Cohere's Command R7B and Command A, as in their chat templates:

<|START_ACTION|>[
    {"tool_call_id": "0", "tool_name": "refund", "parameters": {"amount": 5}}
]<|END_ACTION|>

The template asks the model to list calls together if they can run in parallel.
"""  # noqa: D415 - it ends with what it describes

from __future__ import annotations

from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._marked import MarkedFormat
from guardagent.generation.local.formats._objects import ObjectReader, object_rules, quoted
from guardagent.generation.local.tool_schemas import ClosedSchema

_CLOSING = "<|END_ACTION|>"


class Cohere(MarkedFormat):
    mark = "<|START_ACTION|>"
    is_parallel = True

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        rules = object_rules(tools, lambda name: '"{" id ' + quoted(f'"tool_name": {quoted(name)}, "parameters": '))
        number = '"\\"tool_call_id\\": \\"" /[0-9]{1,6}/ "\\", "'
        return (
            f'block: "[" space? call ("," space? call)* space? "]" {literal(_CLOSING)}\n'
            f"space: /[ \\n]{{1,16}}/\nid: {number}\n{rules}"
        )

    def reader(self, tools: Sequence[ClosedSchema]) -> ObjectReader:  # noqa: ARG002 - see the protocol
        return ObjectReader("parameters", _CLOSING.encode(), "tool_name")


FORMAT = Cohere()
