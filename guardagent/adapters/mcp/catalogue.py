"""The tools of a server, as it lists them: what its calls are held to, and what the rules are held against."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from guardagent.adapters.mcp.wire import require_plain
from guardagent.enforcement import HostCall, ToolGuard, ToolSpec
from guardagent.enforcement.names import EVENTS
from guardagent.enforcement.schema import completed
from guardagent.errors import InputError, nearest

_log = logging.getLogger("guardagent")


class Catalogue:
    """Tool -> its declaration. Nothing may be called before there is one."""

    def __init__(self, guard: ToolGuard, specs: Iterable[ToolSpec] = ()) -> None:
        self._guard = guard
        self._specs: dict[str, ToolSpec] = {spec.name: spec for spec in specs}
        self._problem: str | None = None
        self._pages: list[ToolSpec] | None = None
        self._last: Any = None
        self._cursor: Any = None

    @property
    def specs(self) -> list[ToolSpec]:
        return list(self._specs.values())

    def attach(self, specs: Iterable[ToolSpec]) -> None:
        """Takes over a list of tools, and has the rules held against it where it is another than before.

        Raises:
            InputError: as `ToolGuard.attach`; then no tool may be called until there is a list that is right.
        """
        specs = list(specs)
        if self._problem is None and {spec.name: spec.digest for spec in specs} == {
            spec.name: spec.digest for spec in self._specs.values()
        }:
            return
        try:
            self._require_no_event(specs)
            self._guard.attach(specs)
        except InputError as error:
            self._problem = str(error)
            raise
        self._specs, self._problem = {spec.name: spec for spec in specs}, None

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

    def held(self, call: HostCall) -> HostCall:
        """A call of a tool with the arguments that its schema allows, and with its defaults.

        Raises:
            InputError: there is no such tool, or the arguments do not fit.
        """
        if self._problem is not None:
            raise InputError(f"no tool of this server may be called now: {self._problem}")
        spec = self._specs.get(call.tool)
        if spec is None:
            raise InputError(f"the server lists no tool {call.tool!r}{nearest(call.tool, self._specs)}")
        declared = spec.schema.get("properties")
        require_plain(call.args, tuple(declared) if isinstance(declared, Mapping) else (), call.tool)
        return replace(call, args=completed(call.tool, call.args, spec.schema))

    def schema_of(self, tool: Any) -> Mapping[str, Any]:
        spec = self._specs.get(tool) if isinstance(tool, str) else None
        return spec.schema if spec is not None else {}

    def _require_no_event(self, specs: list[ToolSpec]) -> None:
        """A tool with the name of an event would be judged by the rules of that event."""
        for spec in specs:
            if self._guard.names.resolve(spec.name) in EVENTS:
                raise InputError(
                    f"the tool {spec.name!r} has the name of an event; expected an alias of its own for it"
                )


def specs_of(tools: Any) -> list[ToolSpec]:
    """Declarations as a server writes them; what is none of a tool cannot be called."""
    return [
        ToolSpec(one["name"], schema, str(one.get("description") or ""))
        for one in (tools if isinstance(tools, list) else ())
        if isinstance(one, Mapping)
        and isinstance(one.get("name"), str)
        and isinstance(schema := one.get("inputSchema"), Mapping)
    ]
