"""The tools that requests declare, compared with the rules."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from guardagent._support.arguments import normalized_name
from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.schema import read_object, validate_arguments
from guardagent.errors import InputError, name_hint

_MOST = 1000  # lists of tools that are remembered


class ComparedTools:
    """Compares each list of tools with the rules, once.

    Args:
        guard: has the rules.
    """

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard = guard
        self._compared: OrderedDict[tuple[str, ...], None] = OrderedDict()

    async def compare(self, tools: Sequence[ToolSpec]) -> None:
        """Compares the tools of a request with the rules.

        Raises:
            InputError: a rule names a tool that is probably a misspelling of one of these, or names are ambiguous.
        """
        if twice := _ambiguous(tools):
            raise InputError(twice)
        key = tuple(sorted(tool.digest for tool in tools))
        if key in self._compared:
            self._compared.move_to_end(key)
            return
        await asyncio.to_thread(self._guard.attach, tools)
        self._compared[key] = None
        if len(self._compared) > _MOST:
            self._compared.popitem(last=False)


def read_arguments(name: str, args: Any, tools: Mapping[str, ToolSpec]) -> dict[str, Any]:
    """Returns the arguments of a call as its tool will get them, with the defaults that its schema declares.

    Raises:
        InputError: the request declares no such tool, or the arguments do not fit it.
    """
    tool = tools.get(name)
    if tool is None:
        raise InputError(f"unknown tool {name!r}{name_hint(name, tools)}")
    if args is not None and not isinstance(args, str | Mapping):
        raise InputError(f"the arguments of {name!r} are a {type(args).__name__}; expected a JSON object")
    read = dict(args) if isinstance(args, Mapping) else read_object(args or "", name)
    return validate_arguments(name, read, tool.schema)


def _ambiguous(tools: Sequence[ToolSpec]) -> str | None:
    """Returns why clients may take one tool for another: two names that differ in case or width only."""
    names: dict[str, str] = {}
    for tool in tools:
        other = names.setdefault(normalized_name(tool.name), tool.name)
        if other != tool.name or sum(one.name == tool.name for one in tools) > 1:
            return f"the tools {other!r} and {tool.name!r} have one name for many readers; expected unique names"
    return None
