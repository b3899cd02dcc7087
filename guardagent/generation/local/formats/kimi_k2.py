"""The format of Kimi K2, as in its chat template; the number counts the calls of the conversation:

<|tool_calls_section_begin|><|tool_call_begin|>functions.refund:0<|tool_call_argument_begin|>{"amount": 5}
<|tool_call_end|><|tool_calls_section_end|>

(without the line break).
"""  # noqa: D415 - it ends with what it describes

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._marked import MarkedFormat, check_names
from guardagent.generation.local.formats._objects import EITHER_STYLE, quoted
from guardagent.generation.local.formats.models import NamedReader, named_rules
from guardagent.generation.local.tool_schemas import ClosedSchema

_BEGIN, _ARGUMENTS, _END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_CLOSING = "<|tool_calls_section_end|>"
_HEAD = re.compile(rf"(?:{re.escape(_END)})?{re.escape(_BEGIN)}functions\.([^<:]*):\d+{re.escape(_ARGUMENTS)}".encode())


class KimiK2(MarkedFormat):
    mark = "<|tool_calls_section_begin|>"
    is_parallel = True

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        check_names(tools, "[^<:]+")
        rules = named_rules(
            tools,
            lambda name: f"{literal(_BEGIN)} {quoted('functions.' + name + ':')} NUMBER {literal(_ARGUMENTS)}",
            literal(_END),
            EITHER_STYLE,
        )
        return f"block: call+ {literal(_CLOSING)}\nNUMBER: /[0-9]{{1,6}}/\n{rules}"

    def reader(self, tools: Sequence[ClosedSchema]) -> NamedReader:  # noqa: ARG002 - see the protocol
        return NamedReader(_HEAD, closing=_CLOSING.encode())


FORMAT = KimiK2()
