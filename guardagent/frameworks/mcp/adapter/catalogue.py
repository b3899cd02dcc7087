"""The tools of a server, as it lists them: what its calls are held to, and what the rules are held against."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from guardagent.enforcement import HostCall, ToolGuard, ToolSpec
from guardagent.enforcement.names import EVENTS
from guardagent.enforcement.schema import validate_arguments
from guardagent.enforcement.tools_lock import declared
from guardagent.errors import InputError, name_hint
from guardagent.frameworks.mcp.adapter.wire import require_plain

_log = logging.getLogger("guardagent")


class Catalogue:
    """Tool -> its declaration. Nothing may be called before there is one.

    Args:
        guard: holds the rules against it.
        specs: what was attached already.
        server: whose tools these are, in words, where they are held to what was accepted; "" for a server of one's own.
    """

    def __init__(self, guard: ToolGuard, specs: Iterable[ToolSpec] | None = None, server: str = "") -> None:
        self._guard, self._server = guard, server
        self._specs: dict[str, ToolSpec] = {spec.name: spec for spec in specs or ()}
        self._listed = None if specs is None else _digests(specs)
        self._problem: str | None = None
        self._pages: list[ToolSpec] | None = None
        self._last: Any = None
        self._cursor: Any = None

    def attach(self, specs: Iterable[ToolSpec]) -> None:
        """Takes over a list of tools, and has the rules held against it where it is another than before.

        Raises:
            InputError: as `ToolGuard.attach`; then no tool may be called until there is a list that is right.
        """
        specs = list(specs)
        if self._problem is None and _digests(specs) == self._listed:
            return
        try:
            may_be_called = self._guard.update_server_tools(self._server, specs) if self._server else specs
            self._require_no_event(may_be_called)
            self._guard.attach(may_be_called)
        except InputError as error:
            self._problem = str(error)
            raise
        self._specs, self._problem, self._listed = {spec.name: spec for spec in specs}, None, _digests(specs)

    def forget(self, why: str) -> None:
        """No tool may be called until there is a list again."""
        _log.error("every call of a tool is denied from now on: %s", why)
        self._problem = why

    def page(self, cursor: Any, answer: Any) -> None:
        """Takes note of an answer to `tools/list`; after the last page the rules are held against the whole.

        Raises:
            InputError: as `attach`.
        """
        if not isinstance(answer, Mapping) or not isinstance(answer.get("tools"), list):
            return
        alone = cursor is None and answer.get("nextCursor") is None
        if alone and self._problem is None and answer["tools"] == self._last:
            return
        self._last = answer["tools"] if alone else None
        if cursor is None:
            self._pages = []
        elif self._pages is None or cursor != self._cursor:
            return  # the pages of two lists are not mixed
        self._pages += specs_of(answer["tools"])
        self._cursor = answer.get("nextCursor")
        if self._cursor is None:
            specs, self._pages = self._pages, None
            self.attach(specs)

    def visible(self, tools: list[Any]) -> list[Any]:
        """Of a list as the server gives it, what a model may read: nothing but what was accepted."""
        found = [_shown(one, spec, self._guard.accepted.known(spec.name)) for one in tools if (spec := declared(one))]
        return [one for one in found if one is not None]

    def validated(self, call: HostCall) -> HostCall:
        """A call of a tool with the arguments that its schema allows, and with its defaults.

        Raises:
            InputError: there is no such tool, or the arguments do not fit.
        """
        if self._problem is not None:
            raise InputError(f"no tool of this server may be called now: {self._problem}")
        if (late := self._guard.accepted.unaccepted(call.tool)) is not None:
            raise InputError(late.problem)
        spec = self._specs.get(call.tool)
        if spec is None:
            raise InputError(f"the server lists no tool {call.tool!r}{name_hint(call.tool, self._specs)}")
        declared = spec.schema.get("properties")
        require_plain(call.args, tuple(declared) if isinstance(declared, Mapping) else (), call.tool)
        return replace(call, args=validate_arguments(call.tool, call.args, spec.schema))

    def schema_of(self, tool: Any) -> Mapping[str, Any]:
        spec = self._specs.get(tool) if isinstance(tool, str) else None
        return spec.schema if spec is not None else {}

    def _require_no_event(self, specs: list[ToolSpec]) -> None:
        """A tool with the name of an event would be judged by the rules of that event."""
        for spec in specs:
            if self._guard.names.resolve(spec.name) in EVENTS:
                raise InputError(f"the tool {spec.name!r} has the name of an event; give it an alias")


def _shown(tool: Mapping[str, Any], spec: ToolSpec, accepted: ToolSpec | None) -> Mapping[str, Any] | None:
    """A declaration without what was not accepted of it; None where that is all."""
    if accepted is None or accepted.digest != spec.digest:
        return None
    return {name: one for name, one in tool.items() if name not in spec.more or accepted.more.get(name) == one}


def _digests(specs: Iterable[ToolSpec]) -> list[tuple[str, str]]:
    return sorted((spec.name, spec.digest) for spec in specs)


def specs_of(tools: Any) -> list[ToolSpec]:
    """Declarations as a server writes them; what is none of a tool cannot be called."""
    found = [declared(one) for one in (tools if isinstance(tools, list) else ())]
    return [one for one in found if one is not None]
