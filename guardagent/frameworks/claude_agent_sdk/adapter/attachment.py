"""Attaches a guard to the options of a session."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, HookMatcher

from guardagent._support.requirements import require_parts
from guardagent.enforcement import EnforcementPoint, ToolSpec
from guardagent.enforcement.hosts import Named
from guardagent.errors import InputError
from guardagent.frameworks.claude_agent_sdk.adapter.built_in_tools import built_in_tools
from guardagent.frameworks.claude_agent_sdk.adapter.calls import ClaudeCalls
from guardagent.frameworks.claude_agent_sdk.adapter.closed_options import closed_options
from guardagent.frameworks.claude_agent_sdk.adapter.hook_outputs import PRE
from guardagent.frameworks.claude_agent_sdk.adapter.hooks import ClaudeHooks
from guardagent.frameworks.claude_agent_sdk.adapter.permissions import ReviewedCalls
from guardagent.frameworks.claude_agent_sdk.adapter.servers import GuardedServer
from guardagent.frameworks.claude_agent_sdk.adapter.sessions import ClaudeSessions

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
        self._specs = {"": built_in_tools(options), **{one.name: one.specs() for one in servers}}
        self.guard.attach(spec for specs in self._specs.values() for spec in specs)
        schemas = {spec.name: spec.schema for one in servers for spec in self._specs[one.name]}
        reviewer = options.can_use_tool
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
        ours = {one.name: {**configs[one.name], "instance": one.guarded(self.calls, self._listed)} for one in servers}
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
    ours = ((name, one) for name, one in configs.items() if isinstance(one, dict) and one.get("type") == "sdk")
    return [GuardedServer.of(name, one.get("instance")) for name, one in ours]
