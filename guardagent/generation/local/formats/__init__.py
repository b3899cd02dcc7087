"""How models write tool calls: one file per format, each with a `FORMAT`.

A format finds where a block of calls opens in free text, gives the grammar of what follows, and reads along in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError, UnknownNameError
from guardagent.generation.local.tool_schemas import ToolSchema

_FORMATS = Plugins("tool format", __name__, ("FORMAT",))

LiteralWriter = Callable[[str], str]
"""Writes a text into a grammar in Lark's language, as the tokenizer has it: as a special token, where it is one."""


@dataclass(frozen=True, slots=True)
class PartialCall:
    """What is known of a call that is being written.

    Attributes:
        tool: its name.
        args: the arguments that are complete.
        start: where the last thing that is complete began, as a place in the text: the name, or an argument's value.
        is_complete: whether the whole call is.
    """

    tool: str
    args: Mapping[str, Any]
    start: int
    is_complete: bool = False


class BlockReader(Protocol):
    """Reads a block of calls while it is written."""

    @property
    def is_closed(self) -> bool:
        """Whether the block is at its end."""
        ...

    def read(self, text: bytearray, start: int) -> list[PartialCall]:
        """Reads on from a place to the end of the text: each name, argument and call that is complete by then.

        Raises:
            Unreadable: it is nothing that can be judged.
        """
        ...

    def copy(self) -> BlockReader: ...


class Format(Protocol):
    """A way to write tool calls.

    Attributes:
        longest: how many bytes an opening has at most.
        is_parallel: whether the calls of one turn may run in any order.
        forced: what a turn opens with that has to be a call.
    """

    longest: int
    is_parallel: bool
    forced: str

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        """Whether a model with this chat template and these tokens writes so."""
        ...

    def opening(self, text: bytearray, since: int) -> tuple[int, int] | None:
        """Where a block opens, no earlier than at a place: where its mark begins, and where what follows it begins."""
        ...

    def grammar(self, tools: Sequence[ToolSchema], tokens: Collection[str], literal: LiteralWriter) -> str:
        """The rule `block` in Lark's language: what follows an opening, to the end of the block."""
        ...

    def reader(self) -> BlockReader:
        """Reads a block, from behind its opening."""
        ...


def format_names() -> tuple[str, ...]:
    """The formats of this installation."""
    return tuple(_FORMATS)


def find_format(name: str, template: str, tokens: Collection[str]) -> Format:
    """The format of a name; of `auto`, the one that fits a chat template and the tokens.

    Raises:
        InputError: there is none.
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
    raise InputError(f"the tokenizer does not tell how tool calls are written; expected tool_format={_either()}")


def _either() -> str:
    return " or ".join(map(repr, _FORMATS))
