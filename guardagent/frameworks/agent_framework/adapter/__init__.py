"""The Microsoft Agent Framework: `agent = guarded(agent, guard)`.

    guarded(agent, guard)       all tools of an agent, or of a chat client: functions, MCP, agents, hand-offs
    conversation(id)            names the conversation of the runs inside it
    answer(request, decision)   a reviewer's answer to an approval request of the guard
    AgentFrameworkHalted        raised by a run when a rule halts it

Extra: `guardagent[agent-framework]`.

The agents that a tool or a workflow runs are guarded as well.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, TypeVar

from guardagent._support.requirements import require, require_parts, warn_untried
from guardagent.frameworks.agent_framework.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from agent_framework import (
    BaseChatClient,
    FunctionInvocationLayer,
    FunctionTool,
    RawAgent,
    SupportsAgentRun,
    Workflow,
    normalize_tools,
)

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.host_adapter import UNREAD, HostAdapter
from guardagent.enforcement.host_runs import Named
from guardagent.errors import InputError
from guardagent.frameworks.agent_framework.adapter.approvals import answer, answered, streamed
from guardagent.frameworks.agent_framework.adapter.calls import (
    FunctionToolArguments,
    guard_of,
    guarded_tool,
    original_of,
    update_servers,
)
from guardagent.frameworks.agent_framework.adapter.middleware import RunSetup
from guardagent.frameworks.agent_framework.adapter.runs import (
    SURROUNDINGS,
    UNNAMED,
    AgentFrameworkHalted,
    ClientRun,
    ClientScope,
    conversation,
)

__all__ = ["AgentFrameworkHalted", "answer", "conversation", "guarded"]


# --- the chat client

ATTACHMENT, AGENT = "guardagent_attachment", "guardagent_agent"


@cache
def guarded_class(base: Any) -> Any:
    """Returns the class of a chat client with a guard."""
    if issubclass(base, _GuardedClient):
        return base
    members = {"__module__": base.__module__, "DEFAULT_EXCLUDE": {*base.DEFAULT_EXCLUDE, ATTACHMENT, AGENT}}
    return type(base)(base.__name__, (_GuardedClient, base), members)


def guarded_copy(client: Any, **more: Any) -> Any:
    """Returns a copy of a chat client, which shares its connections and has a guard."""
    own: Any = type(client)
    kind = guarded_class(own)
    created = object.__new__(kind)
    vars(created).update(vars(copy.copy(client)))
    vars(created).update(more)
    return created


class _GuardedClient:
    """Every tool that a request may call is guarded, and its answer is judged."""

    def get_response(
        self,
        messages: Any,
        *,
        stream: bool = False,
        options: Mapping[str, Any] | None = None,
        middleware: Sequence[Any] | None = None,
        client_kwargs: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        attachment, config = vars(self)[ATTACHMENT], self.function_invocation_configuration  # type: ignore[attr-defined]
        messages = messages if isinstance(messages, list) else list(messages)
        setup = RunSetup(attachment, config, vars(self)[AGENT], messages, client_kwargs or {})
        prepared = setup.options(options, middleware)
        respond = partial(super().get_response, messages, stream=stream, **prepared, **more)  # type: ignore[misc]
        if stream:
            return streamed(setup.answers, respond, setup.note_rejections, (options or {}).get("response_format"))
        return answered(setup.answers, respond, setup.note_rejections)


# --- agents in tools and workflows

_AS_TOOL = ".as_tool.<locals>."
_HOLDERS = ("_agent", "_manager")


def agent_in(tool: FunctionTool) -> Any:
    """Returns the agent that `as_tool` made a tool of; None for other tools.

    Raises:
        InputError: the host made it of an agent, and hides which.
    """
    if _AS_TOOL not in getattr(tool.func, "__qualname__", ""):
        return None
    agent = inspect.getclosurevars(tool.func).nonlocals.get("self") if inspect.isfunction(tool.func) else None
    if agent is None:
        raise InputError(f"{tool.name!r} does not tell its agent; install a version that the adapter was tried with")
    return agent


def agents_of(target: Any) -> Iterator[Any]:
    """Yields the agents of a workflow, of the workflows in it, and those that manage others; anything else itself."""
    workflow = target if isinstance(target, Workflow) else getattr(target, "workflow", None)
    if not isinstance(workflow, Workflow):
        yield target
        return
    require_parts(workflow, "get_executors_list")
    for executor in workflow.get_executors_list():
        if isinstance(getattr(executor, "workflow", None), Workflow):
            yield from agents_of(executor)
        yield from _held_by(executor)


def _held_by(holder: Any) -> Iterator[Any]:
    for name in _HOLDERS:
        held = getattr(holder, name, None)
        if isinstance(held, SupportsAgentRun):
            yield from agents_of(held)
        elif held is not None:
            yield from _held_by(held)


# --- attaching

Target = TypeVar("Target", bound=RawAgent[Any] | BaseChatClient[Any] | Workflow)
_PARTS = ("get_response", "function_invocation_configuration")
_MOST = 1000


def guarded(
    target: Target,
    guard: EnforcementPoint,
    *,
    conversation: Named = None,
    unjudged: Mapping[str, Collection[str]] | None = None,
    unguarded: Collection[str] = (),
) -> Target:
    """Attaches a guard to an agent or the agents of a workflow, in place, or returns a guarded copy of a chat client.

    Args:
        target: an agent, which is guarded with those that run as its tools; a workflow; or a chat client.
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the run, or the id of the session that is passed to the run.
        unjudged: tool -> arguments that the program supplies and no rule needs; they are passed on unchanged, and
            neither judged nor logged.
        unguarded: names of tools that may run unguarded: those of the provider, and those that the program runs; and
            of agents of a workflow that run their tools elsewhere.

    Returns:
        The agent or the workflow itself, or the guarded client.

    Raises:
        InputError: a tool cannot be guarded, a rule names a tool that is probably a misspelling of one of the agent's,
            or the agent has another guard.
    """
    attachment = ClientAttachment(guard, conversation, dict(unjudged or {}), frozenset(unguarded))
    if isinstance(target, BaseChatClient):
        return attachment.client(target)  # type: ignore[no-any-return]
    attachment.guard_all(agents_of(target))
    return target


class ClientAttachment(HostAdapter[ClientScope]):
    """One guard, and the client of an agent.

    Attributes:
        arguments: of each tool, by its name.
        servers: the MCP servers of the agent.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        named: Named,
        unjudged: Mapping[str, Collection[str]],
        unguarded: frozenset[str],
    ) -> None:
        super().__init__(guard, SURROUNDINGS, named, UNNAMED)
        self._named, self._unjudged, self._unguarded = named, unjudged, unguarded
        self._guarded: dict[int, tuple[Any, FunctionTool]] = {}  # id of a tool -> its guarded copy, which holds it
        self.arguments: dict[str, FunctionToolArguments] = {}
        self.servers: Sequence[Any] = ()
        self._with_servers = False

    def __deepcopy__(self, memo: Any) -> ClientAttachment:
        return self  # a copy of an agent has the same guard

    # --- attaching

    def guard_all(self, agents: Iterable[Any]) -> None:
        """Guards agents in place, and those that run as their tools."""
        for agent in agents:
            name = getattr(agent, "name", None)
            if name in self._unguarded and not isinstance(agent, RawAgent):
                continue
            if not isinstance(agent, RawAgent):
                raise InputError(
                    f"this is a {type(agent).__name__}; expected an Agent, a workflow of such, or a chat client"
                )
            sibling = ClientAttachment(self.guard, self._named, self._unjudged, self._unguarded)
            sibling.listed = self.listed
            sibling._guard_agent(agent)

    def _guards(self, agent: Any) -> bool:
        owner = vars(agent.client).get(ATTACHMENT)
        return owner is not None and owner.guard is self.guard

    def _guard_agent(self, agent: Any) -> None:
        require_parts(agent, "client", "default_options", "mcp_tools")
        owner = vars(agent.client).get(ATTACHMENT)
        named = None if owner is None else owner._named  # noqa: SLF001 - of this class
        if named not in (None, self._named):  # its requests may be running
            raise InputError(
                f"agent {getattr(agent, 'name', None)!r} is guarded already, with another conversation=...; expected "
                "one guarded(...) per agent, and a session or 'with conversation(id):' for each run"
            )
        self.servers = agent.mcp_tools
        agent.client = self.client(agent.client, getattr(agent, "name", None))
        self.tools(
            [*(agent.default_options.get("tools") or ()), *(one for it in agent.mcp_tools for one in it.functions)]
        )
        if all(one.is_connected for one in agent.mcp_tools):
            self.listed.check()  # else once the servers have listed their tools

    def client(self, client: Any, agent: str | None = None) -> Any:
        """Returns a guarded copy of a chat client.

        Raises:
            InputError: it has another guard, or runs tools in a way of its own.
        """
        if not isinstance(client, FunctionInvocationLayer) or not isinstance(client, BaseChatClient):
            raise InputError(
                f"this is a {type(client).__name__}; expected a chat client with the host's function invocation"
            )
        self.is_new(vars(client).get(ATTACHMENT), "this client", "the client itself")
        require_parts(client, *_PARTS)
        self._check_additional(client)
        return guarded_copy(client, **{ATTACHMENT: self, AGENT: agent})

    def _check_additional(self, client: Any) -> None:
        for one in client.function_invocation_configuration.get("additional_tools") or ():
            if one.name not in self._unguarded:
                raise _outside(one.name, "is an additional tool, which the program runs by itself")

    # --- tools

    def tools(self, tools: Any, skipped: Collection[str] = ()) -> list[Any]:
        """Returns the guarded tools.

        Args:
            tools: as the host takes them.
            skipped: names that are no tools for rules, as those of hand-offs.

        Raises:
            InputError: a tool cannot be guarded.
        """
        own = [original_of(one) for one in normalize_tools(tools)]
        created = [self.tool(one, listed=_name_of(one) not in skipped) for one in own]
        late: Collection[str] = ()
        if self.servers or self._with_servers:
            known = [one for one in self.servers if one.is_connected]
            late = update_servers(self.guard, [one for one in own if isinstance(one, FunctionTool)], known)
        return [_without_description(one) if _name_of(one) in late else one for one in created]

    def tool(self, tool: Any, *, listed: bool = True) -> Any:
        """Returns the guarded copy of a tool.

        Raises:
            InputError: it cannot be guarded.
        """
        name = _name_of(tool)
        if not self.is_new(guard_of(tool), f"tool {name!r}", "the tool itself"):
            tool = original_of(tool)
        if name in self._unguarded:
            return tool
        if not isinstance(tool, FunctionTool):
            raise _outside(name, f"is a {type(tool).__name__}, which runs at the provider or past the function tools")
        if tool.declaration_only:
            raise _outside(name, "has no function here: the program runs it by itself")
        facts = (tool.func, tool.approval_mode, tool.name, tool.description, tool.input_model)  # a program may set them
        found = self._guarded.get(id(tool))
        if found is None or found[0] != facts:
            if len(self._guarded) >= _MOST:
                self._guarded.clear()  # a program may make new tools for each run
            found = self._guarded[id(tool)] = facts, self._guarded_tool(tool, listed=listed)
        return found[1]

    def _guarded_tool(self, tool: FunctionTool, *, listed: bool) -> FunctionTool:
        if (inner := agent_in(tool)) is not None:
            self.guard_all(one for one in agents_of(inner) if isinstance(one, RawAgent) and not self._guards(one))
        arguments = FunctionToolArguments.of(tool, self._unjudged.get(tool.name, ()))
        created = guarded_tool(tool, arguments, self)
        self.arguments[tool.name] = arguments
        self._with_servers = self._with_servers or arguments.server
        if listed:
            self.listed.add(arguments.spec)
        return created

    def refresh(self, tools: Any, run: ClientRun) -> None:
        """Guards tools that were added to a run, and compares those of servers again."""
        if not isinstance(tools, list):
            return
        if self._with_servers or not all(guard_of(tool) is self for tool in tools):
            tools[:] = self.tools(tools, run.handoffs)
            self.listed.check()


def _outside(name: str, why: str) -> InputError:
    return InputError(
        f"{name!r} {why}, where no guard sees it; take it away, or say unguarded={{{name!r}}} if it may run without one"
    )


def _name_of(tool: Any) -> str:
    """Returns the name of a tool in any form that the host takes."""
    if isinstance(tool, Mapping):
        inner = tool.get("function")
        named = inner.get("name") if isinstance(inner, Mapping) else tool.get("name")
        return str(named or tool.get("type") or "dict")
    return str(getattr(tool, "name", None) or getattr(tool, "type", None) or type(tool).__name__)


def _without_description(tool: Any) -> Any:
    """Returns a tool without its server's unreviewed description and schema."""
    created = copy.copy(tool)
    created.description, created._cached_parameters = UNREAD, {"type": "object", "properties": {}}  # noqa: SLF001
    return created
