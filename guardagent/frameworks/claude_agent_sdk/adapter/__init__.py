"""Claude Agent SDK: `options = guarded(options, guard)`.

    guarded(options, guard)     all tools of a session: built-in ones, MCP servers, tools of this process, sub-agents
    conversation(id)            names the conversation of the sessions that begin inside it
    query(prompt, options)      as the SDK's, with final answers held until they are judged
    GuardedClient(options)      as ClaudeSDKClient, in the same way

Extra: `guardagent[claude-agent-sdk]`.

The ways in which the host's settings lead past its hooks are closed or refused. A misspelt name of one of the host's
own tools in a rule is an error.

At the MCP servers of this process, the guard stands at the tool itself, behind the hook.
"""

from __future__ import annotations

import copy
import inspect
import json
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from guardagent._support.requirements import require, require_parts
from guardagent.frameworks.claude_agent_sdk.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, create_sdk_mcp_server

from guardagent._support.execution import Operation, adrive
from guardagent.enforcement import EnforcementPoint, Outcome, ToolSpec
from guardagent.enforcement.host_adapter import HostApproval
from guardagent.enforcement.host_runs import HostScope, Named
from guardagent.errors import InputError
from guardagent.frameworks.claude_agent_sdk.adapter.calls import (
    NO_REVIEWER,
    PRE,
    ClaudeCalls,
    ClaudeSessions,
    conversation,
    enter,
    holding_answers,
    judged_messages,
    outcome_of_result,
    plain_result,
)
from guardagent.frameworks.claude_agent_sdk.adapter.hooks import ClaudeHooks, ReviewedCalls
from guardagent.types import thaw

__all__ = ["GuardedClient", "conversation", "guarded", "query"]

# --- the servers of this process

_CALL, _LIST = "tools/call", "tools/list"
_ID = "claudecode/toolUseId"
_BUILT_BY_SDK = "build_tool_server.<locals>.on_call_tool"
_log = logging.getLogger("guardagent")
_raised: ContextVar[list[BaseException] | None] = ContextVar("guardagent_claude_agent_sdk_raised", default=None)

Listed = Callable[[str, list[ToolSpec]], list[ToolSpec]]
"""Takes note of the complete list of a server. Returns the tools that may be called."""


def full_name(server: str, tool: str) -> str:
    """Returns the name by which the host calls a tool of a server."""
    return "__".join(["mcp", *(re.sub(r"[^a-zA-Z0-9_-]", "_", part) for part in (server, tool))])


@dataclass(frozen=True, slots=True)
class GuardedServer:
    """A server of this process.

    Attributes:
        name: the key of the server in the options.
        instance: the server itself; it is not changed.
        tools: those of `create_sdk_mcp_server`; None for another server, which lists them when it is asked.
        entry: its handler of calls.
    """

    name: str
    instance: Any
    tools: Mapping[str, Any] | None
    entry: Any

    @classmethod
    def of(cls, name: str, instance: Any) -> GuardedServer:
        """Reads a server.

        Raises:
            InputError: it has no place for a guard.
        """
        require_parts(instance, "middleware", "get_request_handler", "add_request_handler", "_request_handlers")
        entry = instance.get_request_handler(_CALL)
        return cls(name, instance, _tools_of(entry), entry)

    def specs(self) -> list[ToolSpec]:
        """Returns the declarations of the tools that are known before the server runs."""
        if not self.tools:
            return []
        listing = inspect.getclosurevars(self.instance.get_request_handler(_LIST).handler).nonlocals["tools"]
        return [spec_of(self.name, tool.model_dump(by_alias=True, mode="json", exclude_none=True)) for tool in listing]

    def guarded(self, calls: ClaudeCalls, listed: Listed) -> Any:
        """Returns a copy of the server whose tools run only what the guard has released."""
        created = copy.copy(self.instance)
        created._request_handlers = dict(created._request_handlers)  # noqa: SLF001 - of the copy
        if self.tools is not None:
            noting = [replace(tool, handler=_noting(tool.handler)) for tool in self.tools.values()]
            handler = create_sdk_mcp_server(self.name, tools=noting)["instance"].get_request_handler(_CALL)
            created.add_request_handler(_CALL, handler.params_type, handler.handler)
        seen = listed if self.tools is None else None
        created.middleware = [*self.instance.middleware, _CallGate(self.name, calls, seen)]
        return created


def spec_of(server: str, tool: Mapping[str, Any]) -> ToolSpec:
    """Returns the declaration of a tool as its server lists it."""
    return ToolSpec(full_name(server, tool["name"]), tool.get("inputSchema") or {}, tool.get("description") or "")


class _CallGate:
    """Stands innermost in a server. Runs a call that was released, once, and records its outcome."""

    def __init__(self, server: str, calls: ClaudeCalls, listed: Listed | None) -> None:
        self._server, self._calls, self._listed = server, calls, listed
        self._pages: list[Any] = []

    async def __call__(self, context: Any, call_next: Any) -> Any:
        if context.method == _CALL:
            return await self._call(context, call_next)
        result = await call_next(context)
        return result if context.method != _LIST or self._listed is None else self._list(context, result)

    async def _call(self, context: Any, call_next: Any) -> Any:
        params = dict(context.params or {})
        name, meta = full_name(self._server, str(params.get("name"))), params.get("_meta") or {}
        try:
            call = self._calls.take(str(meta.get(_ID)), name, params.get("arguments") or {})
        except InputError as error:
            _log.warning("a call was not run: %s", error)
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        raised: list[BaseException] = []
        judged = replace(context, params={**params, "arguments": thaw(call.args)})

        async def work() -> Any:
            token = _raised.set(raised)
            try:
                with enter(HostScope(call.conversation, call=call)):
                    return await call_next(judged)
            finally:
                _raised.reset(token)

        def outcome(result: Any) -> Outcome:
            return Outcome.of_error(raised[0]) if raised else outcome_of_result(result)

        return await adrive(self._calls.guard.lifecycle.execute(call, Operation(work, work), outcome))

    def _list(self, context: Any, result: Any) -> Any:
        """Takes note of a list of tools, and hides those that are not accepted."""
        plain, first = plain_result(result), not (context.params or {}).get("cursor")
        self._pages = [*([] if first else self._pages), *plain.get("tools", ())]
        if plain.get("nextCursor"):
            return result
        assert self._listed is not None
        accepted = {
            spec.name for spec in self._listed(self._server, [spec_of(self._server, spec) for spec in self._pages])
        }
        return {
            **plain,
            "tools": [tool for tool in plain["tools"] if full_name(self._server, tool["name"]) in accepted],
        }


def _tools_of(entry: Any) -> Mapping[str, Any] | None:
    """Returns the tools of a server that the SDK has built, by name; None for another server.

    Raises:
        InputError: this version of the SDK builds servers in another way.
    """
    if entry is None or entry.handler.__qualname__ != _BUILT_BY_SDK:
        return None
    run_tool = inspect.getclosurevars(entry.handler).nonlocals.get("run_tool")
    tools = inspect.getclosurevars(run_tool).nonlocals.get("tools_by_name") if inspect.isfunction(run_tool) else None
    if not isinstance(tools, Mapping):
        raise InputError(
            "create_sdk_mcp_server has no 'tools_by_name' in this version, so failures of tools would not be known; "
            "install a version that the adapter was tried with"
        )
    return tools


def _noting(handler: Any) -> Any:
    """Returns a tool's function that notes what it raises, since the SDK turns that into a text."""
    return partial(_noted, handler)


async def _noted(handler: Any, args: Any) -> Any:
    try:
        return await handler(args)
    except Exception as error:
        raised = _raised.get()
        if raised is not None:
            raised.append(error)
        raise


# --- the host's own tools

NAMES = (
    "Agent AskUserQuestion Bash CronCreate CronDelete CronList Edit EnterPlanMode EnterWorktree ExitPlanMode "
    "ExitWorktree Glob Grep ListAgents ListMcpResourcesTool Monitor NotebookEdit Read ReadMcpResourceTool "
    "ReportFindings ScheduleWakeup SendMessage Skill StructuredOutput TaskOutput TaskStop TodoWrite ToolSearch "
    "WebFetch WebSearch Workflow Write"
).split()
_OTHER_NAMES = {"Task": "Agent"}  # the host's hooks know a tool by one name


def built_in_tools(options: Any) -> list[ToolSpec]:
    """Returns the host's own tools with these options."""
    named = options.tools if isinstance(options.tools, list) else NAMES
    names = dict.fromkeys(_OTHER_NAMES.get(tool_name, tool_name) for tool_name in named)
    return [ToolSpec(name) for name in names if name not in options.disallowed_tools]


# --- settings

SIMPLE = "CLAUDE_CODE_SIMPLE"  # the host then runs no hook at all
UNGUARDED = ("settings hooks", "skill shell")
_FLAGS = ("bare", "settings", "permission-prompt-tool", "permission-prompts", "bg", "background", "cloud")


def closed_options(options: Any, unguarded: Collection[str]) -> dict[str, Any]:
    """Returns the options that have to change.

    Args:
        options: the operator's.
        unguarded: what the operator leaves open, of UNGUARDED.

    Raises:
        InputError: an option leads past the guard.
    """
    for name in unguarded:
        if name not in UNGUARDED:
            raise InputError(f"unguarded has {name!r}; expected one or more of: {', '.join(UNGUARDED)}")
    _refuse_flags(options)
    _refuse_reviewers(options)
    settings = _settings(options)
    env = settings.get("env") or {}
    for place, variables in (("env", options.env), ("the settings' env", env)):
        if str(variables.get(SIMPLE) or "0") != "0":
            raise InputError(f"{place} has {SIMPLE}, with which the host runs no hooks; expected options without it")
    closing = {"disableAllHooks": "settings hooks", "disableSkillShellExecution": "skill shell"}
    closed = {key: True for key, name in closing.items() if name not in unguarded}
    merged = {**settings, **closed, "env": {**env, SIMPLE: "0"}}
    return {"settings": json.dumps(merged), "env": {**options.env, SIMPLE: "0"}}


def _refuse_flags(options: Any) -> None:
    for name in _FLAGS:
        if name in options.extra_args:
            raise InputError(
                f"extra_args has {name!r}, with which calls could get past the guard's hooks; expected options without "
                f"it{' (pass settings=...)' if name == 'settings' else ''}"
            )


def _refuse_reviewers(options: Any) -> None:
    if options.permission_prompt_tool_name is not None:
        raise InputError("permission_prompt_tool_name may change a judged call; pass can_use_tool=... instead")
    if "PermissionRequest" in (options.hooks or {}):
        raise InputError("a PermissionRequest hook approves calls that a rule escalates; pass can_use_tool=... instead")


def _settings(options: Any) -> dict[str, Any]:
    """Returns the settings of the options, as the host reads them.

    Raises:
        InputError: they cannot be read.
    """
    text = (options.settings or "{}").strip()
    try:
        if not text.startswith("{"):
            text = (Path(options.cwd or "") / text).read_text(encoding="utf-8-sig")
        settings = json.loads(text)
    except (OSError, ValueError) as error:
        raise InputError(f"the settings of the options cannot be read: {error}") from None
    if not isinstance(settings, Mapping) or not isinstance(settings.get("env") or {}, Mapping):
        raise InputError("the settings of the options are not an object with an object 'env'")
    return dict(settings)


# --- attaching

_PARTS = ("hooks", "can_use_tool", "mcp_servers", "extra_args", "settings", "env", "permission_prompt_tool_name")


def guarded(
    options: ClaudeAgentOptions,
    guard: EnforcementPoint,
    *,
    conversation: Named = None,
    unguarded: Collection[str] = (),
) -> ClaudeAgentOptions:
    """Attaches a guard to all tools of the sessions with these options.

    Args:
        options: without another guard.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the connection, or else the host's id of the session.
        unguarded: what may happen past the guard: "settings hooks" (hooks in settings and plugins may change judged
            calls) and "skill shell" (shell commands in the text of skills and commands).

    Returns:
        Guarded options. Change none of them afterwards.

    Raises:
        InputError: an option leads past the guard, a rule names a tool that is probably a misspelling of one of the
            agent's, or the options have another guard.
    """
    if not isinstance(options, ClaudeAgentOptions):
        raise InputError(f"this is a {type(options).__name__}; expected ClaudeAgentOptions")
    owner = attachment_of(options)
    if owner is not None and owner.guard is not guard:
        raise InputError("these options have another guard already; expected one guard for all")
    return options if owner is not None else ClaudeAttachment(guard).attach(options, conversation, unguarded)


def attachment_of(options: Any) -> ClaudeAttachment | None:
    """Returns the guard's attachment to options; None if they have none."""
    for matcher in (getattr(options, "hooks", None) or {}).get(PRE, ()):
        for hook in matcher.hooks:
            if isinstance(own := getattr(hook, "__self__", None), AttachedHooks):
                return own.attachment
    return None


class AttachedHooks(ClaudeHooks):
    """The hooks of guarded options, by which these are known."""

    attachment: ClaudeAttachment


class ClaudeAttachment:
    """One guard, and the sessions with one set of options.

    Attributes:
        guard: decides.
        calls: judges calls.
        sessions: the guard's notes on sessions.
    """

    calls: ClaudeCalls
    sessions: ClaudeSessions

    def __init__(self, guard: EnforcementPoint) -> None:
        self.guard = guard
        self._specs: dict[str, list[ToolSpec]] = {}

    def attach(self, options: Any, named: Named, unguarded: Collection[str]) -> Any:
        """Returns guarded options; see `guarded`."""
        require_parts(options, *_PARTS)
        require_parts(HookMatcher(), "on_failure", "timeout")
        closed = closed_options(options, unguarded)
        servers = _servers_of(options)
        self._specs = {"": built_in_tools(options), **{server.name: server.specs() for server in servers}}
        self.guard.attach(spec for specs in self._specs.values() for spec in specs)
        schemas = {spec.name: spec.schema for server in servers for spec in self._specs[server.name]}
        reviewer = options.can_use_tool
        if reviewer is None:
            HostApproval(self.guard).report_missing(NO_REVIEWER)
        self.calls = ClaudeCalls(self.guard, schemas, reviewed=reviewer is not None)
        self.sessions = ClaudeSessions(named, options)
        hooks = AttachedHooks(self.calls, self.sessions)
        hooks.attachment = self
        return replace(
            options,
            **closed,
            hooks=hooks.beside(options.hooks or {}),
            mcp_servers=self._guarded_servers(options.mcp_servers, servers),
            can_use_tool=None if reviewer is None else ReviewedCalls(self.calls, reviewer).can_use_tool,
        )

    def _guarded_servers(self, configs: Any, servers: list[GuardedServer]) -> Any:
        if not servers:
            return configs
        ours = {
            server.name: {**configs[server.name], "instance": server.guarded(self.calls, self._listed)}
            for server in servers
        }
        return {**configs, **ours}

    def _listed(self, server: str, specs: list[ToolSpec]) -> list[ToolSpec]:
        """Takes note of the tools that a server of this process lists."""
        accepted = self.guard.update_server_tools(f"server {server!r} of the options", specs)
        if self._specs.get(server) != specs:
            all_specs = {**self._specs, server: specs}
            self.guard.attach(spec for listed in all_specs.values() for spec in listed)
            self.calls.know(specs)
            self._specs = all_specs
        return accepted


def _servers_of(options: Any) -> list[GuardedServer]:
    configs = options.mcp_servers if isinstance(options.mcp_servers, dict) else {}
    ours = (
        (name, config) for name, config in configs.items() if isinstance(config, dict) and config.get("type") == "sdk"
    )
    return [GuardedServer.of(name, config.get("instance")) for name, config in ours]


# --- the client and `query`


class GuardedClient(ClaudeSDKClient):
    """A client whose messages show only answers that were judged.

    Args:
        options: guarded ones.
        transport: as of `ClaudeSDKClient`.

    Raises:
        InputError: the options have no guard.
    """

    def __init__(self, options: ClaudeAgentOptions, transport: Any = None) -> None:
        self._attachment = _attached(options)
        super().__init__(options, transport)

    async def connect(self, prompt: Any = None) -> None:
        with holding_answers():
            await super().connect(prompt)

    async def receive_messages(self) -> AsyncIterator[Any]:
        async with aclosing(super().receive_messages()) as messages:
            async for message in judged_messages(self._attachment, messages):
                yield message


async def query(*, prompt: Any, options: ClaudeAgentOptions, transport: Any = None) -> AsyncGenerator[Any, None]:
    """As the SDK's `query`; its messages show only answers that were judged.

    Args:
        prompt: as of the SDK's.
        options: guarded ones.
        transport: as of the SDK's.

    Raises:
        InputError: the options have no guard.
    """
    attachment = _attached(options)
    async with aclosing(claude_agent_sdk.query(prompt=prompt, options=options, transport=transport)) as messages:
        async for message in judged_messages(attachment, _begun(messages)):
            yield message


async def _begun(messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Passes on messages, the first of which connects."""
    with holding_answers():
        first = await anext(messages, None)
    if first is not None:
        yield first
    async for message in messages:
        yield message


def _attached(options: Any) -> ClaudeAttachment:
    attachment = attachment_of(options)
    if attachment is None:
        raise InputError("these options have no guard; expected those of guarded(options, guard)")
    return attachment
