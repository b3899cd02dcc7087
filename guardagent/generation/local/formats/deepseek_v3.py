# ruff: noqa: RUF001, RUF002 - the marks of DeepSeek have a wide vertical line
"""The format of DeepSeek V3 and R1, as in their chat templates:

<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>refund
```json
{"amount": 5}
```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
"""  # noqa: D415 - it ends with what it describes

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._marked import MarkedFormat, check_names
from guardagent.generation.local.formats._objects import quoted
from guardagent.generation.local.formats.models import NamedReader, named_rules
from guardagent.generation.local.tool_schemas import ClosedSchema

OPENING, CLOSING = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
BEGIN, SEPARATOR, END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
FENCE = "```json"
_HEAD = re.compile(rf"(?:\n```{END})?\s*{BEGIN}function{SEPARATOR}([^\n]*)\n{FENCE}\n".encode())


class DeepSeekV3(MarkedFormat):
    mark = OPENING
    is_parallel = True

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return super().fits(template, tokens) and (FENCE in template or self.mark not in template)

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        check_names(tools, "[^\n<]+")
        begin = f'{literal(BEGIN)} "function" {literal(SEPARATOR)} '
        rules = named_rules(tools, lambda name: begin + quoted(f"{name}\n{FENCE}\n"), f'"\\n```" {literal(END)}')
        return f'block: call ("\\n"? call)* "\\n"? {literal(CLOSING)}\n{rules}'

    def reader(self, tools: Sequence[ClosedSchema]) -> NamedReader:  # noqa: ARG002 - see the protocol
        return NamedReader(_HEAD, closing=CLOSING.encode())


FORMAT = DeepSeekV3()
