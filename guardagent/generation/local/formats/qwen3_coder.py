"""The format of Qwen3-Coder and Qwen3.5, as in their chat templates, with each call in a block of its own:

<tool_call>
<function=refund>
<parameter=amount>
5
</parameter>
</function>
</tool_call>
"""  # noqa: D415 - it ends with what it describes

from __future__ import annotations

import re
from collections.abc import Collection

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._objects import quoted
from guardagent.generation.local.formats._tagged import TaggedFormat

_NEWLINE_BEFORE_END = ("\n</parameter>", "\\n</parameter>")  # in a template, or in a string within it


class Qwen3Coder(TaggedFormat):
    mark = "<tool_call>"
    names = r"[^<>\s]+"
    head = re.compile(rb"\n?<function=([^>\n]*)>\n")
    argument_head = re.compile(rb"\n?<parameter=([^>\n]*)>\n")
    value_end = ("\n", "</parameter>", '"\\n"')
    call_end = "</function>"
    closing = "</tool_call>"

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        if self.mark in template:
            return "<function=" in template and any(end in template for end in _NEWLINE_BEFORE_END)
        return self.mark in tokens and "<arg_key>" not in tokens

    def block_rule(self, literal: LiteralWriter) -> str:
        return f'"\\n" call {literal(self.closing)}'

    def head_rule(self, name: str, literal: LiteralWriter) -> str:  # noqa: ARG002 - it has no token
        return quoted(f"<function={name}>\n")

    def argument_rule(self, name: str, literal: LiteralWriter) -> str:  # noqa: ARG002 - it has no token
        return f'"<parameter=" {name} ">\\n"'

    def end_rule(self, literal: LiteralWriter) -> str:  # noqa: ARG002 - it has no token
        return '"</function>\\n"'


FORMAT = Qwen3Coder()
