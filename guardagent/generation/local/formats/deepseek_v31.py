# ruff: noqa: RUF002 - the marks of DeepSeek have a wide vertical line
"""The format of DeepSeek V3.1, as in its chat template:

<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>refund<｜tool▁sep｜>{"amount": 5}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
"""  # noqa: D415 - it ends with what it describes

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._marked import MarkedFormat, check_names
from guardagent.generation.local.formats._objects import quoted
from guardagent.generation.local.formats.deepseek_v3 import BEGIN, CLOSING, END, FENCE, OPENING, SEPARATOR
from guardagent.generation.local.formats.models import NamedReader, named_rules
from guardagent.generation.local.tool_schemas import ClosedSchema

_HEAD = re.compile(rf"(?:{END})?{BEGIN}(.*?){SEPARATOR}".encode(), re.DOTALL)


class DeepSeekV31(MarkedFormat):
    mark = OPENING
    is_parallel = True

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return super().fits(template, tokens) and FENCE not in template

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        check_names(tools, "[^<]+")
        rules = named_rules(tools, lambda name: f"{literal(BEGIN)} {quoted(name)} {literal(SEPARATOR)}", literal(END))
        return f"block: call+ {literal(CLOSING)}\n{rules}"

    def reader(self, tools: Sequence[ClosedSchema]) -> NamedReader:  # noqa: ARG002 - see the protocol
        return NamedReader(_HEAD, closing=CLOSING.encode())


FORMAT = DeepSeekV31()
