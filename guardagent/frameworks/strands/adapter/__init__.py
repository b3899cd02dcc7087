"""Strands Agents: `Agent(..., interventions=[GuardIntervention(guard)])`.

    GuardIntervention(guard)    an intervention: the tools, answers and sub-agents of its agents
    guarded(agent, guard)       attaches it in place to an agent, a Swarm or a Graph
    conversation(id)            names the conversation of the runs inside it
    StrandsHalted               raised by a run when a rule halts it

Extra: `guardagent[strands]`.

Every run, model call and tool call of an agent passes through the host's registry of middleware, which the guard wraps.
Agents built within a run inherit the intervention, and the agents of a Swarm or a Graph share one conversation. Tools
that run at the model's provider, where no guard sees them, are refused unless the operator names them.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, TypeVar

from guardagent._support.execution import adrive
from guardagent._support.requirements import require, require_parts
from guardagent.frameworks.strands.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from pydantic import BaseModel
from strands import Agent
from strands.agent._agent_as_tool import _AgentAsTool
from strands.hooks import BeforeInvocationEvent, BeforeMultiAgentInvocationEvent, HookOrder
from strands.interventions import InterventionHandler, Proceed
from strands.middleware._agent_stream import AgentStreamStage
from strands.middleware.stages import ExecuteToolStage, InvokeModelStage
from strands.multiagent import Swarm
from strands.multiagent.base import MultiAgentBase
from strands.multiagent.graph import Graph
from strands.tools.executors import ConcurrentToolExecutor, SequentialToolExecutor
from strands.tools.mcp import MCPAgentTool, MCPClient
from strands.types._events import EventLoopStopEvent, ModelStopReason, ToolResultEvent
from strands.types.tools import AgentTool

from guardagent.enforcement import EnforcementPoint, ToolSpec, make_ids_unique
from guardagent.enforcement.host_adapter import UNREAD, HostAdapter
from guardagent.enforcement.host_runs import Named
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.strands.adapter import calls
from guardagent.frameworks.strands.adapter.approvals import (
    is_structured_output,
    judged_end,
    reply_events,
    without_denied,
)
from guardagent.frameworks.strands.adapter.runs import (
    SURROUNDINGS,
    UNNAMED,
    StrandsHalted,
    StrandsRun,
    StrandsScope,
    conversation,
    run_within,
    scope,
    tool_uses,
)

__all__ = ["GuardIntervention", "StrandsHalted", "conversation", "guarded"]


# --- the executor of tools

_HOSTS = (ConcurrentToolExecutor, SequentialToolExecutor)


def refuse_executor(executor: Any, unguarded: Collection[str]) -> None:
    """Refuses an executor that may run tools past the host's stages, unless the operator names it.

    Raises:
        InputError: it is not one of the host's.
    """
    kind = type(executor)
    if kind not in _HOSTS and kind.__name__ not in unguarded:
        expected = " or ".join(host.__name__ for host in _HOSTS)
        raise InputError(
            f"the tool_executor is a {kind.__name__}, which may run tools past the guard; expected a {expected}, or "
            f"say unguarded={{{kind.__name__!r}}} if it runs each tool by 'ToolExecutor._stream'"
        )


# --- the registry of middleware

ATTACHMENT = "guardagent_attachment"
Next = Callable[[Any], Any]


def guard_middleware(agent: Any, stages: StrandsAttachment) -> None:
    """Puts a guard around an agent's middleware, whenever that was or will be added, and behind it at the tools."""
    registry = agent._middleware_registry  # noqa: SLF001 - the public seams can be overtaken by later ones
    kind: Any = type(registry)
    registry.__class__ = _guarded_registry(kind)
    setattr(registry, ATTACHMENT, stages)


def attachment_of(agent: Any) -> Any:
    """Returns the attachment of an agent; None if it has no guard."""
    return getattr(getattr(agent, "_middleware_registry", None), ATTACHMENT, None)


@cache
def _guarded_registry(base: Any) -> Any:
    return type(base.__name__, (_GuardedRegistry, base), {"__module__": base.__module__})


class _GuardedRegistry:
    """Invokes the stages of an agent with a guard."""

    async def invoke(self, stage: Any, context: Any, terminal: Next) -> AsyncIterator[Any]:
        stages: StrandsAttachment = vars(self)[ATTACHMENT]
        inner: Any = super()
        if stage is ExecuteToolStage:
            events = inner.invoke(stage, context, stages.tool(terminal))
        elif stage is InvokeModelStage:
            served = stages.served(terminal)
            events = stages.model(context, lambda changed: inner.invoke(stage, changed, served))
        elif stage is AgentStreamStage:
            events = stages.run(context, lambda changed: inner.invoke(stage, changed, terminal))
        else:
            events = inner.invoke(stage, context, terminal)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()


# --- tools of the provider

_LISTS = frozenset({"tools", "mcp_servers"})
_OPTIONS = frozenset({"web_search_options"})  # even empty ones turn the search on
_DEEPEST = 4


def refuse_provider_tools(model: Any, unguarded: Collection[str]) -> None:
    """Refuses a model whose configuration has tools of its provider, unless the operator names them.

    Raises:
        InputError: it has some.
    """
    get_config = getattr(model, "get_config", None)
    config = get_config() if callable(get_config) else None
    for name in _provider_tools(config, 0):
        if name not in unguarded:
            raise InputError(
                f"the tool {name!r} of {type(model).__name__} runs at the provider, where no guard sees it; take it "
                f"away, or say unguarded={{{name!r}}} if it may run without one"
            )


def _provider_tools(config: Any, depth: int) -> Iterator[str]:
    if not isinstance(config, Mapping) or depth > _DEEPEST:
        return
    for key, value in config.items():
        listed = isinstance(value, list | tuple) and (key in _LISTS or str(key).endswith("_tools"))
        if listed or (key in _OPTIONS and value is not None):
            yield from (_name(entry, key) for entry in (value if listed else [key]))
        else:
            yield from _provider_tools(value, depth + 1)


def _name(tool: Any, key: str) -> str:
    if isinstance(tool, str):
        return tool
    spec = tool if isinstance(tool, Mapping) else {}
    return str(spec.get("name") or spec.get("type") or key)


# --- MCP servers

_STABLE = (str, bytes, int, float, bool, type(None), BaseModel)


def update_servers(guard: EnforcementPoint, agent: Any, tools: Iterable[Any], specs: Mapping[str, ToolSpec]) -> None:
    """Compares the tools of servers with the accepted ones.

    Args:
        guard: holds the accepted tools.
        agent: has the clients, one of which may have no tools yet.
        tools: the agent's.
        specs: their declarations by name.
    """
    clients = getattr(agent.tool_registry, "_tool_providers", ())
    servers: dict[str, list[ToolSpec]] = {server_of(client): [] for client in clients if isinstance(client, MCPClient)}
    for tool in tools:
        if isinstance(tool, MCPAgentTool):
            servers.setdefault(server_of(tool.mcp_client), []).append(specs[tool.tool_name])
    for server, listed in servers.items():
        guard.update_server_tools(server, listed)


def without_unread(guard: EnforcementPoint, declared: Iterable[Any]) -> list[Any]:
    """Returns the declarations for the model; those of unaccepted tools have no text of their server."""
    hidden = {"description": UNREAD, "inputSchema": {"json": {"type": "object", "properties": {}}}}
    return [
        declaration
        if guard.accepted.unaccepted(declaration["name"]) is None
        else {"name": declaration["name"], **hidden}
        for declaration in declared
    ]


def server_of(client: Any) -> str:
    """Returns the key of a client's server: how the program reaches it, as nothing that the server says may count.

    Clients that a program builds anew have the same key. If two servers have the same, tools of the second are late.
    """
    transport = getattr(client, "_transport_callable", None)
    where = repr((getattr(client, "_prefix", None), _described(transport, 0)))
    return f"{type(client).__name__} ({hashlib.sha256(where.encode()).hexdigest()[:8]})"


def _described(value: Any, depth: int) -> Any:
    """Returns a description of a value that is the same whenever the program makes it."""
    if isinstance(value, _STABLE):
        return repr(value)
    if depth > 5:
        return type(value).__qualname__
    if isinstance(value, Mapping):
        return sorted((str(name), repr(_described(item, depth + 1))) for name, item in value.items())
    if isinstance(value, list | tuple):
        return [_described(item, depth + 1) for item in value]
    if isinstance(value, functools.partial):
        return [_described(part, depth + 1) for part in (value.func, value.args, value.keywords)]
    if inspect.isfunction(value):
        code = value.__code__
        held = [_held(cell) for cell in value.__closure__ or ()]
        inner = [held, value.__defaults__, value.__kwdefaults__]
        return [code.co_filename, code.co_firstlineno, value.__qualname__, _described(inner, depth + 1)]
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _held(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


# --- guarded tools


class StrandsToolProxy(AgentTool):
    """Stands for a tool in one call, behind all hooks and middleware.

    Args:
        tool: the tool itself. It is not changed.
        context: the host's context of the call.
        attachment: judges and runs it.
    """

    def __init__(self, tool: Any, context: Any, attachment: StrandsAttachment) -> None:
        super().__init__()
        self._tool, self._context, self._attachment = tool, context, attachment

    @property
    def tool_name(self) -> str:
        return str(self._tool.tool_name)

    @property
    def tool_spec(self) -> Any:
        return self._tool.tool_spec

    @property
    def tool_type(self) -> str:
        return str(self._tool.tool_type)

    def stream(self, tool_use: Any, invocation_state: dict[str, Any], **kwargs: Any) -> Any:
        return self._attachment.call_events(self._context, self._tool, tool_use, invocation_state, kwargs)


# --- attaching

PARTS = (
    "_middleware_registry",
    "_intervention_registry",
    "_interrupt_state",
    "_session_manager",
    "tool_executor",
    "tool_registry",
)
_STATE = "guardagent_state"


class StrandsAttachment(HostAdapter[StrandsScope]):
    """One guard, and the agents that it guards.

    Attributes:
        options: the operator's name of the conversation, and what may run unguarded.
    """

    def __init__(self, guard: EnforcementPoint, named: Named, unguarded: Collection[str]) -> None:
        super().__init__(guard, SURROUNDINGS, named, UNNAMED)
        self._unguarded = frozenset(unguarded)
        self.options = (named, self._unguarded)
        self._team_session: Callable[[], str | None] | None = None
        self._lock = threading.RLock()  # one attachment serves the agents of many threads

    # --- agents

    def guard_agent(self, agent: Any) -> None:
        """Guards an agent, and the agents that are its tools. Does nothing to what is guarded already.

        Raises:
            InputError: something cannot be guarded, or the agent has another guard.
        """
        if not isinstance(agent, Agent):
            raise InputError(f"this is a {type(agent).__name__}; expected an Agent, a Swarm or a Graph of Strands")
        owner = attachment_of(agent)
        if self.is_new(owner, f"agent {agent.name!r}"):
            require_parts(agent, *PARTS)
            require_parts(agent._middleware_registry, "invoke")  # noqa: SLF001 - see `middleware`
            refuse_provider_tools(agent.model, self._unguarded)
            guard_middleware(agent, self)
        if not _state(agent).checked:
            _state(agent).checked = True  # agents may be tools of each other
            try:
                (owner or self).refresh(agent)
            except BaseException:
                _state(agent).checked = False
                raise

    def refresh(self, agent: Any) -> None:
        """Guards additions to an agent, and compares new or changed tools with the rules.

        Raises:
            InputError: one cannot be guarded, or a rule names a tool that is probably a misspelling of one.
        """
        refuse_executor(agent.tool_executor, self._unguarded)
        tools = [tool for tool in _tools(agent) if not (is_structured_output(tool) or calls.is_handoff(tool))]
        with self._lock:
            for tool in tools:
                self.listed.specs[str(tool.tool_name)] = self._read(agent, tool).spec
            update_servers(self.guard, agent, tools, self.listed.specs)
            self.listed.check()

    def _read(self, agent: Any, tool: Any) -> calls.StrandsArguments:
        """Reads the declaration of a tool again if it has changed. Guards the agent behind it."""
        known = _state(agent).known
        arguments = known.get(tool.tool_name)
        if arguments is None or arguments.tool is not tool or arguments.declared != tool.tool_spec:
            arguments = known[tool.tool_name] = calls.StrandsArguments.of(tool)
        if isinstance(tool, _AgentAsTool) and isinstance(tool.agent, Agent):
            self.guard_agent(tool.agent)
        return arguments

    def _arguments_of(self, agent: Any, tool: Any) -> calls.StrandsArguments:
        """Reads the arguments of a tool that is about to run, even if the agent has not had it before."""
        value = _state(agent).known.get(tool.tool_name)
        if value is None or value.tool is not tool:
            self.refresh(agent)
        return self._read(agent, tool)

    # --- surroundings

    def lead(self, session: Callable[[], str | None]) -> None:
        """Makes the agents parts of a team, whose session names their conversation, and whose runs are the user's."""
        self._team_session = session

    def turn(self) -> None:
        """Notes that the user has spoken to the team."""
        around = self._begin(None)
        if around.call is None and around.conversation:
            self.guard.turn(around.conversation)

    def _begin(self, agent: Any, *, starts_turn: bool = False) -> StrandsScope:
        """Returns the surroundings of a new run, or of a direct call."""
        manager = getattr(agent, "_session_manager", None)  # `agent.session_id` is random without one
        session = getattr(manager, "session_id", None)
        if session is None and self._team_session is not None:
            session = self._team_session()
        session = session if isinstance(session, str) else None
        around = self.begin(run_within, session, starts_turn=starts_turn and self._team_session is None)
        if agent is not None and around.run is not None:
            around.run.show(agent.messages, self.proposed(around))
        return around

    def _judges(self, run: StrandsRun) -> bool:
        return self.guard.judges_answers and run.answers

    # --- stages

    async def run(self, context: Any, call_next: Next) -> AsyncIterator[Any]:
        """Yields the events of a run, in its conversation."""
        around = self._begin(context.agent, starts_turn=True)
        run = around.run or StrandsRun()
        async for event in SURROUNDINGS.stream_within(around, call_next(context)):
            last = isinstance(event, EventLoopStopEvent)
            if last and run.halted is not None:
                raise run.halted
            yield await judged_end(self, around, context.agent, event) if last and self._judges(run) else event

    async def model(self, context: Any, call_next: Next) -> AsyncIterator[Any]:
        """Yields the events of a model call. The model is not called once the guard has ended the run."""
        around = scope() or self._begin(context.agent)
        run = around.run or StrandsRun()
        if run.halted is not None:
            raise run.halted
        events = reply_events(run.final) if run.final is not None else self._called(context, around, run, call_next)
        if run.final is None and self._judges(run):
            events = without_denied(self, around, context.agent, events)
        async for event in events:
            yield event

    async def _called(self, context: Any, around: StrandsScope, run: StrandsRun, call_next: Next) -> AsyncIterator[Any]:
        self.refresh(context.agent)
        run.step += 1
        run.show(context.agent.messages, self.proposed(around))
        context = context.replace(tool_specs=without_unread(self.guard, context.tool_specs))
        async for event in call_next(context):
            if isinstance(event, ModelStopReason):
                self.proposed(around).update(make_ids_unique(tool_uses(event.message), "toolUseId"))
            yield event

    def served(self, terminal: Next) -> Next:
        """Returns the call of the model that the middleware has settled on."""

        async def checked(context: Any) -> AsyncIterator[Any]:
            refuse_provider_tools(context.model, self._unguarded)
            async for event in terminal(context):
                yield event

        return checked

    def tool(self, terminal: Next) -> Next:
        """Returns the run of the tool that hooks and middleware have settled on, behind the guard."""

        async def judged(context: Any) -> AsyncIterator[Any]:
            if context.tool is not None and not is_structured_output(context.tool):
                context = context.replace(tool=StrandsToolProxy(context.tool, context, self))
            async for event in terminal(context):
                yield event

        return judged

    # --- a call

    async def call_events(
        self, context: Any, tool: Any, tool_use: Any, state: dict[str, Any], options: dict[str, Any]
    ) -> AsyncIterator[Any]:
        """Yields the events of a judged call; those of a denied one are the host's own tool error."""
        around = scope()
        if around is None or (around.run is None and around.call is None):
            around = self._begin(context.agent)  # a direct call
        read = partial(self._arguments_of, context.agent, tool)
        invocation = calls.StrandsInvocation(self, around, context, tool, tool_use.get("input"), options, read)
        try:
            call, args = await adrive(invocation.allowed())
        except ToolDenied as denied:
            content = [{"text": str(denied)}]
            result = {"toolUseId": str(tool_use.get("toolUseId")), "status": "error", "content": content}
            yield ToolResultEvent(result, exception=denied)
            return
        running = calls.tool_events(invocation.arguments, args, tool_use, state, options)
        async with aclosing(invocation.stream(call, running, is_last=calls.is_result)) as events:
            async for event in events:
                yield event


@dataclass(slots=True)
class _AgentState:
    """The state of one agent.

    Attributes:
        checked: whether its tools could be guarded when the guard was attached.
        known: what was read of its tools, by name.
    """

    checked: bool = False
    known: dict[str, calls.StrandsArguments] = field(default_factory=dict)


def _state(agent: Any) -> _AgentState:
    agent_state: _AgentState = vars(agent._middleware_registry).setdefault(_STATE, _AgentState())  # noqa: SLF001 - see `middleware`
    return agent_state


def _tools(agent: Any) -> Iterable[Any]:
    return {**agent.tool_registry.registry, **agent.tool_registry.dynamic_tools}.values()


# --- swarms and graphs

_MARK = "guardagent_guarded"


def guard_team(
    team: Any, attachment: StrandsAttachment, guard_agent: Callable[[Any], None], unguarded: Collection[str]
) -> None:
    """Guards the agents of a team, and of the teams in it. Its session names their conversation.

    Raises:
        InputError: a node runs elsewhere, and is not one of the `unguarded`.
    """
    require_parts(team, "nodes", "hooks", "session_manager")
    attachment.lead(lambda: getattr(team.session_manager, "session_id", None))
    _guard_nodes(team, guard_agent, unguarded)
    if _MARK in vars(team):
        return
    vars(team)[_MARK] = True
    team.hooks.add_callback(BeforeMultiAgentInvocationEvent, lambda _: attachment.turn())


def _guard_nodes(team: Any, guard_agent: Callable[[Any], None], unguarded: Collection[str]) -> None:
    for name, node in team.nodes.items():
        if isinstance(node.executor, Agent):
            guard_agent(node.executor)
        elif isinstance(node.executor, MultiAgentBase) and hasattr(node.executor, "nodes"):
            _guard_nodes(node.executor, guard_agent, unguarded)
        elif name not in unguarded:
            raise InputError(
                f"node {name!r} is a {type(node.executor).__name__}, whose tools run where no guard sees them; guard "
                f"them there, and say unguarded={{{name!r}}}"
            )


# --- the intervention

AnyAgent = TypeVar("AnyAgent")


class GuardIntervention(InterventionHandler):
    """An intervention that guards its agents: `Agent(..., interventions=[GuardIntervention(guard)])`.

    The agent's first run or direct call attaches the guard. An agent that cannot be guarded does not run.

    Args:
        guard: decides.
        conversation: the conversation's id, or a function that returns it; by default that of the
            `with conversation(id):` around the run, or the `session_id` of the session manager.
        unguarded: names of tools of the model's provider, of nodes, and of the class of a tool executor, that may run
            without a guard.
    """

    def __init__(self, guard: EnforcementPoint, *, conversation: Named = None, unguarded: Collection[str] = ()) -> None:
        self.attachment = StrandsAttachment(guard, conversation, unguarded)

    @property
    def name(self) -> str:
        return "guardagent"

    def before_invocation(self, event: Any, **_: Any) -> Any:
        """Guards the agent before its run.

        Raises:
            InputError: it cannot be guarded, or a method of the host is about to show its answer unjudged.
        """
        self.attachment.guard_agent(event.agent)
        if self.attachment.guard.judges_answers and event.messages is None:
            raise InputError(
                "the answers of this agent are judged, and 'structured_output' shows them unjudged; expected "
                "agent(prompt, structured_output_model=...)"
            )
        return Proceed()

    def before_tool_call(self, event: Any, **_: Any) -> Any:
        """Guards the agent before a direct call. The call itself is judged at the tool, behind all hooks."""
        self.attachment.guard_agent(event.agent)
        return Proceed()


def guarded(
    agent: AnyAgent, guard: EnforcementPoint, *, conversation: Named = None, unguarded: Collection[str] = ()
) -> AnyAgent:
    """Attaches a guard in place to an agent, or to a Swarm or a Graph and its agents.

    Args:
        agent: an agent or a team without another guard.
        guard: decides.
        conversation: as of `GuardIntervention`; a team's session manager names one, too.
        unguarded: as of `GuardIntervention`.

    Returns:
        The agent.

    Raises:
        InputError: something cannot be guarded, a rule names a tool that is probably a misspelling of one of the
            agent's, or the agent has another guard.
    """
    handler = GuardIntervention(guard, conversation=conversation, unguarded=unguarded)
    if isinstance(agent, Swarm | Graph):
        guard_team(agent, handler.attachment, lambda member: _attach(member, handler), frozenset(unguarded))
    else:
        _attach(agent, handler)
    return agent


def _attach(agent: Any, handler: GuardIntervention) -> None:
    """Attaches the guard now, and puts the handler where agents built within a run inherit it.

    Raises:
        InputError: as of `guarded`.
    """
    known = attachment_of(agent)
    handler.attachment.guard_agent(agent)
    if known is not None:
        if known.options != handler.attachment.options:
            raise InputError(
                f"agent {agent.name!r} is guarded already, with another conversation=... or unguarded=...; expected "
                "one guarded(...) per agent, and 'with conversation(id):' around its runs"
            )
        return
    agent.hooks.add_callback(BeforeInvocationEvent, handler.before_invocation, order=HookOrder.SDK_FIRST)
    inherited = agent._intervention_registry  # noqa: SLF001 - the host has no other way to add one later
    require_parts(inherited, "_handlers")
    inherited._handlers = [*inherited._handlers, handler]  # noqa: SLF001 - as above
