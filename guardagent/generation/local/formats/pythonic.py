"""The pythonic format of Llama 3.2 and Llama 4, as in the templates for them: calls in a list, with keyword arguments.

    [refund(order="W1", amount=5), send_mail(text="hi")]

A turn that begins with a bracket is treated as calls, and so is a bracket after `<|python_start|>`. Values are
literals of both Python and JSON, but for `True`, `False` and `None`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._marked import MarkedFormat, check_names
from guardagent.generation.local.formats.literals import PythonicReader, call_rules
from guardagent.generation.local.tool_schemas import ClosedSchema

_BRACKET = re.compile(rb"\s*\[")
_EXAMPLE = "[func_name1("


class Pythonic(MarkedFormat):
    mark = "<|python_start|>"
    is_parallel = True

    @property
    def forced(self) -> str:
        return ""

    def fits(self, template: str, tokens: Collection[str]) -> bool:  # noqa: ARG002 - its tokens are in other formats too
        return _EXAMPLE in template

    def opening(self, text: bytearray, since: int, begin: int | None) -> tuple[int, int] | None:
        if begin is not None and (bracket := _BRACKET.match(text, begin)):
            return bracket.end() - 1, bracket.end() - 1
        return super().opening(text, since, begin)

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        check_names(tools, r"[A-Za-z_]\w*", of_arguments=True)
        return f'block: "[" call (", " call)* "]"\n{call_rules(tools)}'

    def reader(self, tools: Sequence[ClosedSchema]) -> PythonicReader:
        return PythonicReader({tool.name: tool for tool in tools})


FORMAT = Pythonic()
