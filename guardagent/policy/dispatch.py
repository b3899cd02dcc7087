"""Tools that call other tools (`dispatch:`), such as a gateway: rules see the inner call in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.policy.language import ANSWER
from guardagent.policy.language.values import kind_of, parsed, unreadable
from guardagent.types import EMPTY, freeze

MAX_LEVELS = 2


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The inner call of a tool that calls others.

    Attributes:
        tool: the argument with the name of the inner tool.
        arguments: the argument with its arguments, which can be a string of JSON; None: they are the other arguments.
        nested: whether the inner tool may be such a tool itself, once.
    """

    tool: str
    arguments: str | None = None
    nested: bool = False

    def inner(self, tool: str, args: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """(the inner tool, its arguments).

        Raises:
            UnreadableCallError: the call does not say which.
        """
        name = args.get(self.tool)
        if not isinstance(name, str) or not name:
            raise UnreadableCallError(f"{tool!r} calls a tool that its argument {self.tool!r} does not name")
        if name == ANSWER:
            raise UnreadableCallError(f"{tool!r} calls {ANSWER!r}, which is reserved for the final answer")
        if self.arguments is None:
            return name, freeze({key: value for key, value in args.items() if key != self.tool})
        value = args.get(self.arguments)
        if kind_of(value) == "text":
            content = unreadable(value) or parsed(str(value))
            value = freeze(content) if kind_of(content) == "mapping" else value
        if value is not None and kind_of(value) != "mapping":
            expected = "expected a mapping, or a string that is exactly one as JSON"
            raise UnreadableCallError(f"the argument {self.arguments!r} of {tool!r} cannot be read; {expected}")
        return name, EMPTY if value is None else value


class UnreadableCallError(Exception):
    """The inner call cannot be read."""


def inner_call(tools: Mapping[str, Dispatch], tool: str, args: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """(the tool that a call runs in the end, its arguments).

    Raises:
        UnreadableCallError: the call does not say which.
    """
    *_, last = _levels(tools, tool, args)
    return last


def called_tools(tools: Mapping[str, Dispatch], tool: str, args: Mapping[str, Any]) -> list[str]:
    """Returns a tool and those that its call runs, one behind the other; raises as `inner_call`."""
    return [name for name, _ in _levels(tools, tool, args)]


def _levels(
    tools: Mapping[str, Dispatch], tool: str, args: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    levels = 0
    yield tool, args
    while (dispatch := tools.get(tool)) is not None:
        outer, levels = tool, levels + 1
        tool, args = dispatch.inner(tool, args)
        if tool in tools and not (dispatch.nested and levels < MAX_LEVELS):
            more = "" if dispatch.nested else "; 'nested: true' in the policy allows one more"
            raise UnreadableCallError(f"{outer!r} calls {tool!r}, which calls another tool{more}")
        yield tool, args
