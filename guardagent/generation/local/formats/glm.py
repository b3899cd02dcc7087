"""The format of GLM 4.5 and later, as in their chat templates, with each call in a block of its own.

<tool_call>refund
<arg_key>amount</arg_key>
<arg_value>5</arg_value>
</tool_call>

From GLM 4.7 on without the line breaks.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._objects import quoted
from guardagent.generation.local.formats._tagged import TaggedFormat

_KEY = "<arg_key>"
_BREAK = ' "\\n"? '


class Glm(TaggedFormat):
    mark = "<tool_call>"
    names = r"[^<>\s]+"
    head = re.compile(rb"([^<\n]+)\n?(?=<arg_key>|</tool_call>)")
    argument_head = re.compile(rb"\n?<arg_key>([^<]*)</arg_key>\n?<arg_value>")
    value_end = ("", "</arg_value>", '"\\n"?')
    call_end = "</tool_call>"

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return _KEY in (template if self.mark in template else tokens)

    def block_rule(self, literal: LiteralWriter) -> str:  # noqa: ARG002 - a call is a block
        return "call"

    def head_rule(self, name: str, literal: LiteralWriter) -> str:  # noqa: ARG002 - it has no token
        return quoted(name) + _BREAK

    def argument_rule(self, name: str, literal: LiteralWriter) -> str:
        return f"{literal(_KEY)} {name} {literal('</arg_key>')}{_BREAK}{literal('<arg_value>')}"

    def end_rule(self, literal: LiteralWriter) -> str:
        return literal(self.call_end)


FORMAT = Glm()
