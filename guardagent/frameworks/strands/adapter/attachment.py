"""Attaches a guard to agents, and wraps what they do."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from strands import Agent
from strands.agent._agent_as_tool import _AgentAsTool
from strands.types._events import EventLoopStopEvent, ModelStopReason

from guardagent._support.requirements import require_parts
from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.hosts import ListedTools, Named, naming, proposed_ids
from guardagent.errors import InputError
from guardagent.frameworks.strands.adapter.answers import is_structured_output, judged_end, reply_events, without_denied
from guardagent.frameworks.strands.adapter.arguments import StrandsArguments
from guardagent.frameworks.strands.adapter.calls import StrandsCalls
from guardagent.frameworks.strands.adapter.executors import refuse_executor
from guardagent.frameworks.strands.adapter.handoffs import is_handoff
from guardagent.frameworks.strands.adapter.messages import tool_uses
from guardagent.frameworks.strands.adapter.middleware import Next, attachment_of, guard_middleware
from guardagent.frameworks.strands.adapter.provider_tools import refuse_provider_tools
from guardagent.frameworks.strands.adapter.runs import StrandsRun, StrandsScope, scope, surroundings, within
from guardagent.frameworks.strands.adapter.servers import update_servers, without_unread
from guardagent.frameworks.strands.adapter.tool_proxy import StrandsToolProxy

PARTS = (
    "_middleware_registry",
    "_intervention_registry",
    "_interrupt_state",
    "_session_manager",
    "tool_executor",
    "tool_registry",
)
_STATE = "guardagent_state"


class StrandsAttachment:
    """One guard, and the agents that it guards.

    Attributes:
        guard: decides.
        options: the operator's name of the conversation, and what may run unguarded.
    """

    def __init__(self, guard: EnforcementPoint, named: Named, unguarded: Collection[str]) -> None:
        self.guard, self._name, self._unguarded = guard, naming(named), frozenset(unguarded)
        self.options = (named, self._unguarded)
        self._team_session: Callable[[], str | None] | None = None
        self._calls = StrandsCalls(guard, self._arguments_of, self._surroundings)
        self._listed = ListedTools(guard)
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
        if owner is not None and owner.guard is not self.guard:
            raise InputError(f"agent {agent.name!r} has another guard already; expected one guard for all agents")
        if owner is None:
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
        tools = [one for one in _tools(agent) if not (is_structured_output(one) or is_handoff(one))]
        with self._lock:
            for tool in tools:
                self._listed.specs[str(tool.tool_name)] = self._read(agent, tool).spec
            update_servers(self.guard, agent, tools, self._listed.specs)
            self._listed.check()

    def _read(self, agent: Any, tool: Any) -> StrandsArguments:
        """Reads the declaration of a tool again if it has changed. Guards the agent behind it."""
        known = _state(agent).known
        found = known.get(tool.tool_name)
        if found is None or found.tool is not tool or found.declared != tool.tool_spec:
            found = known[tool.tool_name] = StrandsArguments.of(tool)
        if isinstance(tool, _AgentAsTool) and isinstance(tool.agent, Agent):
            self.guard_agent(tool.agent)
        return found

    def _arguments_of(self, agent: Any, tool: Any) -> StrandsArguments:
        """Reads the arguments of a tool that is about to run, even if the agent has not had it before."""
        found = _state(agent).known.get(tool.tool_name)
        if found is None or found.tool is not tool:
            self.refresh(agent)
        return self._read(agent, tool)

    # --- surroundings

    def lead(self, session: Callable[[], str | None]) -> None:
        """Makes the agents parts of a team, whose session names their conversation, and whose runs are the user's."""
        self._team_session = session

    def turn(self) -> None:
        """Notes that the user has spoken to the team."""
        around = self._around(None)
        if around.call is None and around.conversation:
            self.guard.turn(around.conversation)

    def _around(self, agent: Any) -> StrandsScope:
        manager = getattr(agent, "_session_manager", None)  # `agent.session_id` is random without one
        session = getattr(manager, "session_id", None)
        if session is None and self._team_session is not None:
            session = self._team_session()
        return surroundings(self._name(), session if isinstance(session, str) else None)

    def _surroundings(self, agent: Any) -> StrandsScope:
        around = self._around(agent)
        if around.run is not None:
            around.run.show(agent.messages, self._proposed(around))
        return around

    def _begin(self, agent: Any) -> StrandsScope:
        """Returns the surroundings of a new run."""
        around = self._surroundings(agent)
        if around.call is None and around.conversation and self._team_session is None:
            self.guard.turn(around.conversation)
        return around

    def _proposed(self, around: StrandsScope) -> set[str]:
        """Returns the ids of the calls that models proposed in this conversation."""
        return proposed_ids(self.guard, around.conversation)

    def _judges(self, run: StrandsRun) -> bool:
        return self.guard.judges_answers and run.answers

    # --- stages

    async def run(self, context: Any, call_next: Next) -> AsyncIterator[Any]:
        """Yields the events of a run, in its conversation."""
        around = self._begin(context.agent)
        run = around.run or StrandsRun()
        async for event in within(around, call_next(context)):
            last = isinstance(event, EventLoopStopEvent)
            if last and run.halted is not None:
                raise run.halted
            yield (
                await judged_end(self.guard, around, run, context.agent, event) if last and self._judges(run) else event
            )

    async def model(self, context: Any, call_next: Next) -> AsyncIterator[Any]:
        """Yields the events of a model call. The model is not called once the guard has ended the run."""
        around = scope() or self._surroundings(context.agent)
        run = around.run or StrandsRun()
        if run.halted is not None:
            raise run.halted
        events = reply_events(run.final) if run.final is not None else self._called(context, around, run, call_next)
        if run.final is None and self._judges(run):
            events = without_denied(self.guard, around, run, context.agent, events)
        async for event in events:
            yield event

    async def _called(self, context: Any, around: StrandsScope, run: StrandsRun, call_next: Next) -> AsyncIterator[Any]:
        self.refresh(context.agent)
        run.step += 1
        run.show(context.agent.messages, self._proposed(around))
        context = context.replace(tool_specs=without_unread(self.guard, context.tool_specs))
        async for event in call_next(context):
            if isinstance(event, ModelStopReason):
                self._proposed(around).update(str(one.get("toolUseId")) for one in tool_uses(event.message))
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
                context = context.replace(tool=StrandsToolProxy(context.tool, context, self._calls))
            async for event in terminal(context):
                yield event

        return judged


@dataclass(slots=True)
class _AgentState:
    """The state of one agent.

    Attributes:
        checked: whether its tools could be guarded when the guard was attached.
        known: what was read of its tools, by name.
    """

    checked: bool = False
    known: dict[str, StrandsArguments] = field(default_factory=dict)


def _state(agent: Any) -> _AgentState:
    found: _AgentState = vars(agent._middleware_registry).setdefault(_STATE, _AgentState())  # noqa: SLF001 - see `middleware`
    return found


def _tools(agent: Any) -> Iterable[Any]:
    return {**agent.tool_registry.registry, **agent.tool_registry.dynamic_tools}.values()
