"""The format of Hermes, Qwen and many others, with each call in a block of its own:

<tool_call>
{"name": "refund", "arguments": {"amount": 5}}
</tool_call>
"""  # noqa: D415 - it ends with what it describes

from __future__ import annotations

from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._objects import ObjectReader, call_rules
from guardagent.generation.local.tool_schemas import ClosedSchema

_OPENING, _CLOSING = "<tool_call>", "</tool_call>"


class Hermes:
    longest = len(_OPENING)
    is_parallel = False
    forced = _OPENING

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return _OPENING in template or _OPENING in tokens

    def opening(self, text: bytearray, since: int) -> tuple[int, int] | None:
        at = text.find(_OPENING.encode(), since)
        return None if at < 0 else (at, at + len(_OPENING))

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        return f'block: "\\n"? call "\\n"? {literal(_CLOSING)}\n{call_rules(tools, "arguments")}'

    def reader(self) -> ObjectReader:
        return ObjectReader("arguments", _CLOSING.encode())


FORMAT = Hermes()
