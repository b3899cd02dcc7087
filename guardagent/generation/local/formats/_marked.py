"""Formats whose blocks open with a mark."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from guardagent.errors import InputError
from guardagent.generation.local.tool_schemas import ClosedSchema


class MarkedFormat:
    """A base for formats: blocks open with one mark, which also tells the format in a template or a vocabulary.

    Attributes:
        mark: the mark.
        is_parallel: as in `Format`.
        headers: as in `Format`.
    """

    mark: str
    is_parallel = False
    headers: re.Pattern[bytes] | None = None

    @property
    def longest(self) -> int:
        return len(self.mark.encode())

    @property
    def forced(self) -> str:
        return self.mark

    def fits(self, template: str, tokens: Collection[str]) -> bool:
        return self.mark in template or self.mark in tokens

    def opening(self, text: bytearray, since: int, begin: int | None) -> tuple[int, int] | None:  # noqa: ARG002 - see the protocol
        at = text.find(self.mark.encode(), since)
        return None if at < 0 else (at, at + self.longest)


def check_names(tools: Sequence[ClosedSchema], allowed: str, *, of_arguments: bool = False) -> None:
    """Checks that a format without quotes can write the names of the tools.

    Args:
        tools: the tools.
        allowed: the pattern of names.
        of_arguments: whether to check the names of their arguments too.

    Raises:
        InputError: it cannot write one of them.
    """
    for tool in tools:
        for name in (tool.name, *(tool.schema["properties"] if of_arguments else ())):
            if not re.fullmatch(allowed, name):
                raise InputError(
                    f"the tool format cannot write the name {name!r} of {tool.name!r}; expected one that matches "
                    f"{allowed}"
                )
