"""Sets of tools: those that a pattern names, or all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

ANY = "*"
"""The name in a pattern that matches every tool."""


class AnyTool(frozenset[str]):
    """All tools, known or not, as `*(...)` matches them. Its items are the known ones, as examples."""

    __slots__ = ()

    def __contains__(self, _: object) -> bool:
        return True

    def __and__(self, other: Any) -> frozenset[str]:
        return frozenset(other)

    __rand__ = __and__

    def __or__(self, _: Any) -> AnyTool:
        return self

    __ror__ = __or__

    def __le__(self, other: Any) -> bool:
        return isinstance(other, AnyTool)

    def __ge__(self, _: Any) -> bool:
        return True


def names(tools: frozenset[str], tool: str) -> bool:
    """Whether a set names a tool, and does not just match any."""
    return tool in tools and not isinstance(tools, AnyTool)


def union_of(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    """The tools that are in one of the sets."""
    found: frozenset[str] = frozenset()
    for one in sets:
        found = found | one
    return found


def suggested(tools: frozenset[str]) -> Iterator[str]:
    """The tools of a pattern that a remedy can name, in order; none if any tool would do."""
    return iter(()) if isinstance(tools, AnyTool) else iter(sorted(tools))
