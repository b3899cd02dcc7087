"""Formats in which models write tool calls; `models` has them by name.

A format finds the opening of a block of calls in free text, provides the grammar of the block, and parses it
incrementally.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from guardagent.generation.local.tool_schemas import ClosedSchema

LiteralWriter = Callable[[str], str]
"""Writes a string as a literal of a Lark grammar; as a special token if the tokenizer has one."""


@dataclass(frozen=True, slots=True)
class PartialCall:
    """The known part of a call that is being generated.

    Attributes:
        tool: the name of the tool.
        args: the complete arguments.
        start: the offset in the text at which the last complete name or argument value begins.
        is_complete: whether the whole call is complete.
    """

    tool: str
    args: Mapping[str, Any]
    start: int
    is_complete: bool = False


class BlockReader(Protocol):
    """Parses a block of calls incrementally."""

    @property
    def is_closed(self) -> bool:
        """Whether the block has ended."""
        ...

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        """Parses from an offset to the end of the text. Returns each name, argument and call completed by then.

        Raises:
            MalformedCall: the call cannot be judged.
        """
        ...

    def copy(self) -> BlockReader: ...


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """A format of tool calls. A mark opens its blocks, and tells the format in a template or a vocabulary.

    Attributes:
        mark: the mark.
        grammar: returns the rule `block` as a Lark grammar: the text after an opening, to the end of the block. Raises
            InputError if the format cannot write the name of a tool or an argument.
        reader: returns a parser for a block of calls of these tools, starting after its opening.
        is_parallel: whether the calls of one turn may run in any order.
        detects: whether a model with this chat template and these tokens uses the format, given whether one of them has
            the mark.
        first: a pattern of another opening, at the beginning of a turn; the block opens with its group.
        later: a pattern of the openings, if the mark alone is not one.
        needs_mark: whether a turn that must be a call begins with the mark.
        longest_opening: an opening that is longer than the mark; none is longer.
        headers: the headers of messages in free text, which are not shown to users.
    """

    mark: str
    grammar: Callable[[Sequence[ClosedSchema], Collection[str], LiteralWriter], str]
    reader: Callable[[Sequence[ClosedSchema]], BlockReader]
    is_parallel: bool = False
    detects: Callable[[str, Collection[str], bool], bool] = lambda _template, _tokens, is_marked: is_marked
    first: re.Pattern[bytes] | None = None
    later: re.Pattern[bytes] | None = None
    needs_mark: bool = True
    longest_opening: str = ""
    headers: re.Pattern[bytes] | None = None

    @property
    def longest(self) -> int:
        """The greatest length of an opening in bytes."""
        return len((self.longest_opening or self.mark).encode())

    @property
    def forced(self) -> str:
        """The opening of a turn that must be a call."""
        return self.mark if self.needs_mark else ""

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        """Whether a model with this chat template and these tokens uses the format."""
        return self.detects(template, tokens, self.mark in template or self.mark in tokens)

    def opening(self, text: bytearray, since: int, begin: int | None) -> tuple[int, int] | None:
        """The next opening of a block: (its start, its end).

        Args:
            text: the text of the turn.
            since: the offset from which to look for marks.
            begin: the offset at which the free text of the turn begins; None once it had a block.
        """
        if self.first is not None and begin is not None and (opening := self.first.match(text, begin)):
            return opening.span(1)
        if self.later is not None:
            opening = self.later.search(text, since)
            return None if opening is None else opening.span()
        at = text.find(self.mark.encode(), since)
        return None if at < 0 else (at, at + len(self.mark.encode()))
