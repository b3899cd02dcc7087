"""The harmony format of gpt-oss, as in OpenAI's description of it and in its chat template.

    <|channel|>commentary to=functions.refund <|constrain|>json<|message|>{"amount": 5}<|call|>
    <|start|>assistant to=functions.refund<|channel|>commentary json<|message|>{"amount": 5}<|call|>

The turn begins after `<|start|>assistant`. A call ends the turn, so there is one call in a turn.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from guardagent.generation.local.formats import LiteralWriter
from guardagent.generation.local.formats._marked import MarkedFormat, check_names
from guardagent.generation.local.formats._objects import EITHER_STYLE, quoted
from guardagent.generation.local.formats.models import NamedReader, named_rules
from guardagent.generation.local.tool_schemas import ClosedSchema

_START, _CHANNEL, _CONSTRAIN, _MESSAGE, _CALL = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|call|>"
_CHANNELS = "analysis|commentary|final"
_OPENING = re.compile(rf"(?:<\|start\|>assistant|<\|channel\|>(?:{_CHANNELS})?) ?to=".encode())
_ROLE_FIRST = re.compile(rb" ?to=")  # at the beginning of the turn
_LONGEST = len("<|start|>assistant<|channel|>commentary<|message|>")  # the longest header; no opening is longer
_HEAD = re.compile(rb"functions\.([\w.-]+)(?: ?<\|constrain\|>json|<\|channel\|>commentary(?: json)?)?<\|message\|>")


class Harmony(MarkedFormat):
    mark = "<|channel|>commentary to="
    longest = _LONGEST
    headers = re.compile(
        rf"<\|start\|>(?:assistant)?|<\|channel\|>(?:{_CHANNELS})?(?:<\|message\|>)?|<\|(?:message|end|return|call)\|>".encode()
    )

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return _CONSTRAIN in tokens or (_CHANNEL in template and "to=functions." in template)

    def opening(self, text: bytearray, since: int, begin: int | None) -> tuple[int, int] | None:
        found = _ROLE_FIRST.match(text) if begin == 0 else None
        found = found or _OPENING.search(text, since)
        return None if found is None else found.span()

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:  # noqa: ARG002 - see the protocol
        check_names(tools, r"[a-zA-Z0-9_.-]+")
        rules = named_rules(
            tools,
            lambda name: f"{quoted('functions.' + name)} type? {literal(_MESSAGE)}",
            f"({literal(_CALL)})?",
            EITHER_STYLE,
        )
        kind = f'type: " "? {literal(_CONSTRAIN)} "json" | {literal(_CHANNEL)} "commentary" " json"?'
        return f"block: call\n{kind}\n{rules}"

    def reader(self, tools: Sequence[ClosedSchema]) -> NamedReader:  # noqa: ARG002 - see the protocol
        return NamedReader(_HEAD, closing=_CALL.encode())


FORMAT = Harmony()
