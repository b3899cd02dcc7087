"""Formats in which models write tool calls: one file per format, each with a `FORMAT`.

A format finds the opening of a block of calls in free text, provides the grammar of the block, and parses it
incrementally.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError, UnknownNameError
from guardagent.generation.local.tool_schemas import ClosedSchema

_FORMATS = Plugins("tool format", __name__, ("FORMAT",))

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
    """A format of tool calls.

    Attributes:
        longest: the greatest length of an opening in bytes.
        is_parallel: whether the calls of one turn may run in any order.
        forced: the opening of a turn that must be a call.
    """

    longest: int
    is_parallel: bool
    forced: str

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        """Whether a model with this chat template and these tokens uses the format."""
        ...

    def opening(self, text: bytearray, since: int) -> tuple[int, int] | None:
        """The next opening of a block, from an offset on: (its start, its end)."""
        ...

    def grammar(self, tools: Sequence[ClosedSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        """The rule `block` as a Lark grammar: the text after an opening, to the end of the block."""
        ...

    def reader(self) -> BlockReader:
        """A parser for a block, starting after its opening."""
        ...


def format_names() -> tuple[str, ...]:
    """The names of the installed formats."""
    return tuple(_FORMATS)


def find_format(name: str, template: str, tokens: Collection[str]) -> Format:
    """Finds a format by name; `auto` finds the one that fits the chat template and the tokens.

    Raises:
        InputError: no format has that name, or none fits.
    """
    if name != "auto":
        if name not in _FORMATS:
            raise UnknownNameError("tool format", name, [*_FORMATS, "auto"])
        named: Format = _FORMATS.load(name).FORMAT
        return named
    for _, module in _FORMATS.load_all():
        found: Format = module.FORMAT
        if found.fits(template, tokens):
            return found
    raise InputError(
        f"the format of tool calls cannot be detected from the tokenizer; expected 'tool_format' {_either()}"
    )


def _either() -> str:
    return " or ".join(map(repr, _FORMATS))
