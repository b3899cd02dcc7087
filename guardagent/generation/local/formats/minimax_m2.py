"""The format of MiniMax M2, as in its chat template:

<minimax:tool_call>
<invoke name="refund">
<parameter name="amount">5</parameter>
</invoke>
</minimax:tool_call>
"""  # noqa: D415 - it ends with what it describes

from __future__ import annotations

import re

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._objects import quoted
from guardagent.generation.local.formats._tagged import TaggedFormat


class MinimaxM2(TaggedFormat):
    mark = "<minimax:tool_call>"
    is_parallel = True
    names = r'[^<>\s"]+'
    head = re.compile(rb'\n?<invoke name="([^"\n]*)">')
    argument_head = re.compile(rb'\n?<parameter name="([^"\n]*)">')
    value_end = ("", "</parameter>", '"\\n"')
    call_end = "</invoke>"
    closing = "</minimax:tool_call>"

    def block_rule(self, literal: LiteralWriter) -> str:
        return f'"\\n" call+ {literal(self.closing)}'

    def head_rule(self, name: str, literal: LiteralWriter) -> str:  # noqa: ARG002 - it has no token
        return quoted(f'<invoke name="{name}">\n')

    def argument_rule(self, name: str, literal: LiteralWriter) -> str:  # noqa: ARG002 - it has no token
        return f'"<parameter name=\\"" {name} "\\">"'

    def end_rule(self, literal: LiteralWriter) -> str:  # noqa: ARG002 - it has no token
        return '"</invoke>\\n"'


FORMAT = MinimaxM2()
