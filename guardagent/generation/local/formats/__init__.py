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


class Format(Protocol):
    """A format of tool calls."""

    @property
    def longest(self) -> int:
        """The greatest length of an opening in bytes."""
        ...

    @property
    def is_parallel(self) -> bool:
        """Whether the calls of one turn may run in any order."""
        ...

    @property
    def forced(self) -> str:
        """The opening of a turn that must be a call."""
        ...

    @property
    def headers(self) -> re.Pattern[bytes] | None:
        """The headers of messages in free text, which are not shown to users."""
        ...

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        """Whether a model with this chat template and these tokens uses the format."""
        ...

    def opening(self, text: bytearray, since: int, begin: int | None) -> tuple[int, int] | None:
        """The next opening of a block: (its start, its end).

        Args:
            text: the text of the turn.
            since: the offset from which to look for marks.
            begin: the offset at which the free text of the turn begins; None once it had a block.
        """
        ...

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        """The rule `block` as a Lark grammar: the text after an opening, to the end of the block.

        Raises:
            InputError: the format cannot write the name of a tool or an argument.
        """
        ...

    def reader(self, tools: Sequence[ClosedSchema]) -> BlockReader:
        """A parser for a block of calls of these tools, starting after its opening."""
        ...
