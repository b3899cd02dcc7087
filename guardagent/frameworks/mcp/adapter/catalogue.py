"""The tools that a server lists. Calls are validated against them, and the rules are checked against them.

`tools_of` lists them before a client connects, so that mismatches with the rules show at the start. `accept_tools` is
`guardagent mcp-proxy --accept-tools FILE`: it writes a lock file, and shows the changes.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from guardagent._support.files import save_text
from guardagent.enforcement import EnforcementPoint, HostCall, ToolSpec
from guardagent.enforcement.names import EVENTS, declared, difference, read_tools_lock, tools_lock
from guardagent.enforcement.schema import output_problem, validate_arguments
from guardagent.errors import GuardError, InputError, name_hint
from guardagent.frameworks.mcp.adapter import calls
from guardagent.frameworks.mcp.adapter.calls import require_plain
from guardagent.frameworks.mcp.adapter.server_side import ServerSide, Target, cause
from guardagent.types import EMPTY, sorted_json

_log = logging.getLogger("guardagent")


# --- the catalogue


class Catalogue:
    """Tool -> its declaration. No tool may be called before the server has listed its tools.

    Args:
        guard: checks the rules against the tools.
        specs: the tools that are already attached.
        server: the server's name in messages, if its tools must be accepted; "" for the operator's own server.
        lists_all: whether clients also see tools that they may never call.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        specs: Iterable[ToolSpec] | None = None,
        server: str = "",
        *,
        lists_all: bool = False,
    ) -> None:
        self._guard, self._server, self.lists_all = guard, server, lists_all
        self._specs: dict[str, ToolSpec] = {}
        self._schemas: dict[str, str] = {}
        self._listed: list[tuple[str, str]] | None = None
        if specs is not None:
            self._set(list(specs))
        self._problem: str | None = None
        self._pages: list[ToolSpec] | None = None
        self._last: Any = None
        self._cursor: Any = None

    def attach(self, specs: Iterable[ToolSpec]) -> None:
        """Replaces the tools, and checks the rules against them if they have changed.

        Raises:
            InputError: as `ToolGuard.attach`; then no tool may be called until a valid list arrives.
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
        self._problem = None
        self._set(specs)

    def _set(self, specs: list[ToolSpec]) -> None:
        self._specs, self._listed = {spec.name: spec for spec in specs}, _digests(specs)
        self._schemas = {spec.name: sorted_json(spec.schema) for spec in specs}

    def forget(self, why: str) -> None:
        """Denies every tool call until a new list arrives."""
        _log.error("every call of a tool is denied from now on: %s", why)
        self._problem = why

    def page(self, cursor: Any, answer: Any) -> None:
        """Records a page of an answer to `tools/list`; the last page has the rules checked against the whole list.

        Raises:
            InputError: as `attach`.
        """
        if not isinstance(answer, Mapping) or not isinstance(answer.get("tools"), list):
            return
        alone = cursor is None and answer.get("nextCursor") is None
        if alone and self._problem is None and answer["tools"] == self._last:
            return
        tools = copy.deepcopy(answer["tools"])  # a server of this process may change its own list in place
        self._last = tools if alone else None
        if cursor is None:
            self._pages = []
        elif self._pages is None or cursor != self._cursor:
            return  # a page of another list
        self._pages += specs_of(tools)
        self._cursor = answer.get("nextCursor")
        if self._cursor is None:
            specs, self._pages = self._pages, None
            self.attach(specs)

    def visible(self, tools: list[Any], conversation: str | None) -> list[Any]:
        """Returns the parts of a server's list that a model may read: the accepted ones that it may ever call."""
        shown_tools = [
            _shown(tool, spec, self._guard.accepted.known(spec.name))
            for tool in tools
            if (spec := declared(tool)) and (self.lists_all or self._guard.may_call(spec.name, conversation))
        ]
        return [shown_tool for shown_tool in shown_tools if shown_tool is not None]

    def call(self, tool: str, args: Mapping[str, Any], conversation: str | None) -> HostCall:
        """Returns a tool call with validated arguments and the defaults of the schema; its edits are validated, too.

        Raises:
            InputError: the tool does not exist, or the arguments do not match its schema.
        """
        return HostCall(tool, self._validated(tool, args), conversation, validate_edit=partial(self._validated, tool))

    def _validated(self, tool: str, args: Mapping[str, Any]) -> dict[str, Any]:
        if self._problem is not None:
            raise InputError(f"no tool of this server may be called now: {self._problem}")
        if (late := self._guard.accepted.unaccepted(tool)) is not None:
            raise InputError(late.problem)
        spec = self._specs.get(tool)
        if spec is None:
            raise InputError(f"the server lists no tool {tool!r}{name_hint(tool, self._specs)}")
        declared = spec.schema.get("properties")
        require_plain(args, tuple(declared) if isinstance(declared, Mapping) else (), tool)
        return validate_arguments(tool, args, self._schemas[tool])

    def output_problem(self, tool: str, answer: Any) -> str | None:
        """Returns what is wrong with the result of a finished call, for a model; None if nothing is.

        Where a tool declares an `outputSchema`, its result has structured content that fits, or is an error.
        """
        spec = self._guard.accepted.known(tool) or self._specs.get(tool)
        schema = None if spec is None else spec.more.get("outputSchema")
        if not isinstance(schema, Mapping) or not isinstance(answer, Mapping) or calls.unfinished(answer):
            return None
        if answer.get("isError") is True:
            return None
        return structured_problem(tool, answer.get("structuredContent"), schema)

    def schema_of(self, tool: Any) -> Mapping[str, Any]:
        spec = self._specs.get(tool) if isinstance(tool, str) else None
        return spec.schema if spec is not None else {}

    def _require_no_event(self, specs: list[ToolSpec]) -> None:
        """Refuses a tool with the name of an event, since the rules of that event would judge it."""
        for spec in specs:
            if self._guard.names.resolve(spec.name) in EVENTS:
                raise InputError(f"the tool {spec.name!r} has the name of an event; give it an alias")


def structured_problem(tool: str, structured: Any, schema: Mapping[str, Any]) -> str | None:
    """Returns why structured content does not match the output schema of its tool; None if it does."""
    problem = "there is no structured content" if structured is None else output_problem(structured, schema)
    if problem is None:
        return None
    return f"the result of {tool!r} does not match the tool's output schema, and is withheld: {problem}"


def _shown(tool: Mapping[str, Any], spec: ToolSpec, accepted: ToolSpec | None) -> Mapping[str, Any] | None:
    """Returns a declaration without the unaccepted fields; None if the tool itself is not accepted."""
    if accepted is None or accepted.digest != spec.digest:
        return None
    return {name: value for name, value in tool.items() if name not in spec.more or accepted.more.get(name) == value}


def _digests(specs: Iterable[ToolSpec]) -> list[tuple[str, str]]:
    return sorted((spec.name, spec.digest) for spec in specs)


def specs_of(tools: Any) -> list[ToolSpec]:
    """Returns the declarations of a server's list; an invalid one is skipped, so it cannot be called."""
    specs = [declared(tool) for tool in (tools if isinstance(tools, list) else ())]
    return [spec for spec in specs if spec is not None]


# --- a list before a client connects

SECONDS = 60.0
MAX_PAGES = 1000
_CLIENT = {"name": "guardagent", "version": "1"}
_CAPABILITIES: dict[str, Any] = {"roots": {}, "sampling": {}, "elicitation": {}}  # some servers then list more tools
_HANDSHAKE: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": _CAPABILITIES, "clientInfo": _CLIENT}
_ENVELOPE = {
    calls.VERSION_KEY: calls.NEWEST,
    calls.CLIENT_KEY: _CLIENT,
    calls.CAPABILITIES_KEY: _CAPABILITIES,
}


async def tools_of(target: Target, least: str = "") -> list[ToolSpec]:
    """Returns the tools that a server lists, in a separate session; `least` is the oldest accepted revision, if any.

    Raises:
        InputError: the server cannot be started.
        GuardError: the server does not answer.
    """

    async def take(_line: bytes, message: calls.Message) -> None:
        if calls.is_request(message):
            await server.send(calls.error(message["id"], calls.METHOD_NOT_FOUND, "there is no client yet"))

    async def work() -> list[ToolSpec]:
        ask, meta = partial(server.ask, seconds=SECONDS), {}
        if least > _HANDSHAKE["protocolVersion"] or "error" in await ask("initialize", _HANDSHAKE):
            meta = {"_meta": _ENVELOPE}  # since 2026-07-28 there is no handshake
        else:
            await server.send(calls.notification("notifications/initialized"))
        return await listed_tools(ask, meta)

    async def resumed() -> None:
        """Does nothing: there is only one connection."""

    server = ServerSide(target, take, lambda *_: None, resumed, least)
    try:
        async with asyncio.timeout(SECONDS):
            return await server.once(work)
    except TimeoutError:
        raise GuardError(f"the MCP server did not list its tools within {SECONDS:g} s; nothing is guarded") from None
    except OSError as error:
        raise InputError(f"the MCP server cannot be started: {error}; expected a command or a URL after --") from None
    except Exception as error:  # noqa: BLE001 - libraries raise any type here
        raise GuardError(f"the MCP server does not list its tools: {cause(error)[0]}; nothing is guarded") from None


async def listed_tools(
    ask: Callable[..., Awaitable[calls.Message]], params: Mapping[str, Any] = EMPTY
) -> list[ToolSpec]:
    """Returns all tools that a server lists; none if it knows no tools.

    Args:
        ask: sends a request to the server, and returns the answer.
        params: further parameters of the requests.

    Raises:
        InputError: the server does not list its tools.
        LinkLostError: it is gone.
    """
    specs, more = list[ToolSpec](), dict[str, Any]()
    for _ in range(MAX_PAGES):
        response = await ask("tools/list", {**params, **more})
        answer, why = response.get("result"), response.get("error")
        if isinstance(why, Mapping) and why.get("code") == calls.METHOD_NOT_FOUND:
            return specs
        if not isinstance(answer, Mapping):
            raise InputError(f"the server answers tools/list with {why}")
        specs += specs_of(answer.get("tools"))
        if answer.get("nextCursor") is None:
            return specs
        more = {"cursor": answer["nextCursor"]}
    raise InputError(f"the list of the server's tools has more than {MAX_PAGES} pages")


# --- lock files


def accept_tools(target: Target, path: Path) -> str:
    """Writes the lock file. Returns its changes, for the operator.

    Raises:
        InputError: the file is not a lock file or not writable, or the server does not start or lists a name twice.
        GuardError: the server does not answer.
    """
    before = read_tools_lock(path) if path.exists() else []
    after = asyncio.run(tools_of(target))
    names = [tool.name for tool in after]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"the server lists two tools {twice[0]!r}; expected unique names")
    save_text(path, tools_lock(after))
    return "\n".join([*_changes(before, after), f"{path}: tools {len(after)}"])


def _changes(before: list[ToolSpec], after: list[ToolSpec]) -> Iterator[str]:
    old, new = ({tool.name: tool for tool in tools} for tools in (before, after))
    for name in sorted(old.keys() | new.keys()):
        if change := difference(old.get(name), new.get(name)):
            yield change
