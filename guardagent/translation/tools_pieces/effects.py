"""Tools that change something: all but those that their authors, or their names, call reading."""

from __future__ import annotations

import re
from collections.abc import Iterable

from guardagent.translation.tools import ToolSchema

_READS = frozenset(
    "browse calculate check compare compute count describe estimate exists fetch find get has inspect is list load "
    "lookup look query quote read retrieve search show status summarize think validate verify view".split()
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def writing_tools(tools: Iterable[ToolSchema]) -> tuple[ToolSchema, ...]:
    """Returns the tools that change something, as far as annotations and names tell: in doubt, a tool does."""
    return tuple(one for one in tools if not is_reading(one))


def is_reading(tool: ToolSchema) -> bool:
    """Whether a tool changes nothing: its author says so, or its name begins with a verb such as `get` or `search`.

    The verb may stand after a prefix, as in `orders.list` and `shop__get_order`.
    """
    if tool.read_only is not None:
        return tool.read_only
    last = re.split(r"[.:/]|__", tool.name)[-1]
    words = [one.casefold() for one in _WORDS.findall(last)]
    return bool(words) and words[0] in _READS
