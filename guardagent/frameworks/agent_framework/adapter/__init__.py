"""The Microsoft Agent Framework: `agent = guarded(agent, guard)`.

    guarded(agent, guard)       all tools of an agent, or of a chat client: functions, MCP, agents, hand-offs
    conversation(id)            names the conversation of the runs inside it
    answer(request, decision)   a reviewer's answer to an approval request of the guard
    AgentFrameworkHalted        raised by a run when a rule halts it

Extra: `guardagent[agent-framework]`.

The agents that a tool or a workflow runs are guarded as well.

The middlewares are around all others, behind all others, and at the model. The setup of a run determines its
conversation, and the tools and middlewares of its request.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeVar

from guardagent._support.requirements import require, require_parts
from guardagent.frameworks.agent_framework.package import DISTRIBUTIONS, EXTRA, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from agent_framework import (
    AgentSession,
    BaseChatClient,
    ChatContext,
    ChatMiddleware,
    ChatResponse,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    FunctionMiddleware,
    FunctionTool,
    MiddlewareTermination,
    RawAgent,
    SupportsAgentRun,
    Workflow,
    normalize_tools,
)

from guardagent._support.execution import adrive
from guardagent.enforcement import Approval, EnforcementPoint, HostCall
from guardagent.enforcement.calls import make_ids_unique, plain_arguments
from guardagent.enforcement.host_adapter import HANDOFF, UNREAD, HostAdapter
from guardagent.enforcement.host_runs import Named, awaited
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.agent_framework.adapter import approvals, runs
from guardagent.frameworks.agent_framework.adapter.approvals import answer
from guardagent.frameworks.agent_framework.adapter.calls import (
    ClientInvocation,
    FunctionToolArguments,
    guard_of,
    guarded_tool,
    original_of,
    update_servers,
)
from guardagent.frameworks.agent_framework.adapter.runs import AgentFrameworkHalted, conversation

__all__ = ["AgentFrameworkHalted", "answer", "conversation", "guarded"]

# --- attaching


Target = TypeVar("Target", bound=RawAgent[Any] | BaseChatClient[Any] | Workflow)


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


# --- middlewares

_FIRST = "guardagent_function"
Next = Callable[[], Awaitable[None]]


class OuterMiddleware(FunctionMiddleware):
    """Around the other middlewares: tells the tool which call it runs, and judges hand-offs, which these carry out."""

    def __init__(self, attachment: ClientAttachment, around: runs.ClientScope, run: runs.ClientRun) -> None:
        self._attachment, self._around, self._run = attachment, around, run

    async def process(self, context: FunctionInvocationContext, call_next: Next) -> None:
        call_id = context.metadata.get("call_id")
        self._run.proposed.add(str(call_id))
        context.metadata[_FIRST] = context.function
        inside = self._around.of_call(call_id, approvals.decision_in(context.metadata.get("approval_response")))
        target = self._run.handoffs.get(context.function.name)
        with runs.enter(inside):
            await delivered(
                context, self._run, call_next if target is None else self._handing(context, target, call_next)
            )

    def _handing(self, context: FunctionInvocationContext, target: str, call_next: Next) -> Next:
        async def hand_over() -> None:
            self._run.handed_over = True
            await call_next()

        async def judged() -> None:
            args = {**context.arguments, "to": target}
            invocation = ClientInvocation(self._attachment, HANDOFF, args, handoff=True)
            call, _ = await adrive(invocation.allowed())
            await adrive(invocation.execute(call, awaited(hand_over)))

        return judged


class InnerMiddleware(FunctionMiddleware):
    """Behind the other middlewares: turns denials into results, and runs tools that came by another way guarded."""

    def __init__(self, attachment: ClientAttachment, run: runs.ClientRun) -> None:
        self._attachment, self._run = attachment, run

    async def process(self, context: FunctionInvocationContext, call_next: Next) -> None:
        async def late() -> None:
            try:
                tool = self._attachment.tool(context.function)
            except InputError as error:
                invocation = ClientInvocation(self._attachment, context.function.name, {})
                raise await adrive(invocation.refusal(str(error))) from None
            call_id = context.metadata.get("call_id")
            context.result = await tool.invoke(arguments=context.arguments, context=context, tool_call_id=call_id)

        tools = (context.function, context.metadata.get(_FIRST))  # a middleware may have put in another one
        known = all(guard_of(tool) is self._attachment for tool in tools)
        await delivered(context, self._run, call_next if known else late)


async def delivered(context: FunctionInvocationContext, run: runs.ClientRun, work: Next) -> None:
    """Runs a call, and gives the model the reason if it is denied.

    Raises:
        AgentFrameworkHalted: a rule halts the run.
        MiddlewareTermination: the run ends, as the agent gave up.
    """
    try:
        await work()
    except runs.AgentFrameworkHalted:
        raise
    except ToolDenied as denied:
        context.result = [Content.from_text(f"Error: {denied}")]
    except approvals.FunctionApprovalNeeded as needed:
        context.result = approvals.request_content(needed, context)
    if run.halted is not None:
        raise run.halted
    if run.final is not None:
        raise MiddlewareTermination("the agent gave up", result=context.result)


class ModelMiddleware(ChatMiddleware):
    """At the model: guards tools that were added to the run, and judges what the model writes before it is stored."""

    def __init__(self, attachment: ClientAttachment, run: runs.ClientRun, judge: approvals.ClientAnswers) -> None:
        self._attachment, self._run, self._judge = attachment, run, judge

    async def process(self, context: ChatContext, call_next: Next) -> None:
        run = self._run
        run.step, run.messages = run.step + 1, runs.chat(context.messages)
        run.seen = [
            call_id for call_id in runs.call_ids(context.messages, "function_result") if call_id not in run.proposed
        ]
        self._attachment.refresh((context.options or {}).get("tools"), run)
        await call_next()
        if isinstance(context.result, ChatResponse):
            context.result = (await self._read(context.result))[0]
        elif self._judge.judges:
            context.result = approvals.held_stream(context.result, self._read)
        else:
            context.stream_result_hooks.append(self._note)

    async def _read(self, response: Any) -> tuple[Any, bool]:
        self._note(response)
        return await self._judge.of_model(response)

    def _note(self, response: Any) -> None:
        contents = (content for message in response.messages for content in message.contents)
        calls = [content for content in contents if content.type == "function_call"]
        self._run.hands_over = any(call.name in self._run.handoffs for call in calls)
        self._run.proposed.update(make_ids_unique(calls, "call_id"))


# --- the setup

_HANDOFFS, _HANDS_OVER = "_handoff_functions", "_AutoHandoffMiddleware"


class RunSetup:
    """Sets up one run of a guarded client.

    Args:
        attachment: the guard and the tools.
        config: the host's configuration of function invocation.
        agent: the name of the agent.

    Attributes:
        around: the surroundings of the run.
        answers: judges its answers.
    """

    def __init__(
        self,
        attachment: ClientAttachment,
        config: Mapping[str, Any],
        agent: str | None,
        messages: Iterable[Any],
        kwargs: Mapping[str, Any],
    ) -> None:
        self._attachment, self._config, self._messages, self._kwargs = attachment, config, messages, kwargs
        self.around, self._run = self._begin(agent)
        self.answers = approvals.ClientAnswers(attachment.guard, self.around, self._run)

    def options(self, options: Mapping[str, Any] | None, middleware: Sequence[Any] | None) -> dict[str, Any]:
        """Returns the options of the request, with guarded tools, and the guard's middlewares around the others.

        Raises:
            InputError: a tool cannot be guarded.
        """
        attachment, run, options = self._attachment, self._run, dict(options or {})
        if options.get("tools") or attachment.servers:
            if not self._config.get("enabled", True):
                raise InputError("function invocation is not enabled, so the program runs the calls; expected the host")
            tools = attachment.tools(options.get("tools"), run.handoffs)
            options |= {"tools": tools} if tools else {}
            attachment.listed.check()
        others = [*_listed(self._kwargs.get("middleware")), *_listed(middleware)]
        own = [InnerMiddleware(attachment, run), ModelMiddleware(attachment, run, self.answers)]
        ordered = [OuterMiddleware(attachment, self.around, run), *others, *own]
        return {"options": options, "client_kwargs": {**self._kwargs, "middleware": ordered}}

    async def note_rejections(self) -> None:
        """Records the rejections in the messages, so that nobody can approve the same request later."""
        for content in (content for message in self._messages for content in message.contents):
            decided = approvals.decision_in(content) if content.type == "function_approval_response" else None
            if decided is None or content.approved is True or not self.around.conversation:
                continue
            if (call := self._rejected(content.function_call, decided)) is not None:
                await adrive(self._attachment.guard.lifecycle.resolve(call, Approval.read(decided[approvals.ANSWER])))

    def _begin(self, agent: str | None) -> tuple[runs.ClientScope, runs.ClientRun]:
        attachment, session = self._attachment, self._kwargs.get("session")
        handoffs, id_of_session, asks = _handoffs(self._kwargs.get("middleware")), None, False
        if isinstance(session, AgentSession) and self._kwargs.get(runs.OWN_SESSION, True) is not False:
            asks = True
            id_of_session = None if handoffs or runs.IN_WORKFLOW in session.state else session.session_id
        around = attachment.begin(runs.ClientRun, id_of_session)
        run = around.run or runs.ClientRun()
        run.handoffs, run.messages, run.proposed = handoffs, runs.chat(self._messages), attachment.proposed(around)
        run.seen = [
            call_id for call_id in runs.call_ids(self._messages, "function_result") if call_id not in run.proposed
        ]
        asks = asks or bool(self._config.get("disable_approval_response_binding", False))
        return replace(around, agent=agent, asks=asks), run

    def _rejected(self, function_call: Any, decided: Mapping[str, Any]) -> HostCall | None:
        """Returns the call that a rejection names; None if it is not the call that was shown."""
        arguments = self._attachment.arguments.get(getattr(function_call, "name", None) or "")
        if arguments is None:
            return None
        try:
            prepared = arguments.tool._prepare_arguments(function_call.parse_arguments() or {})  # noqa: SLF001
            args, named = plain_arguments(arguments.bind(prepared)[0]), arguments.spec.name
            around = self.around
            call = HostCall(named, args, around.conversation, id=function_call.call_id, agent=around.agent)
            call = approvals.call_shown(call, decided)
            return call if call.digest == str(decided.get("digest")).partition(".")[0] else None
        except Exception:  # noqa: BLE001 - what a client sends; the host has rejected the call in any case
            return None


def _listed(middleware: Any) -> list[Any]:
    if middleware is None:
        return []
    return list(middleware) if isinstance(middleware, Sequence) else [middleware]


def _handoffs(middleware: Any) -> dict[str, str]:
    """Returns the hand-off tools that a middleware of the host's workflows carries out, with their targets."""
    handoffs: dict[str, str] = {}
    for layer in _listed(middleware):
        if type(layer).__name__ == _HANDS_OVER:
            require_parts(layer, _HANDOFFS)
        handoffs |= getattr(layer, _HANDOFFS, None) or {}
    return handoffs


# --- the chat client

ATTACHMENT, AGENT = "guardagent_attachment", "guardagent_agent"


@cache
def guarded_class(base: Any) -> Any:
    """Returns the class of a chat client with a guard."""
    if issubclass(base, _GuardedChatClient):
        return base
    members = {"__module__": base.__module__, "DEFAULT_EXCLUDE": {*base.DEFAULT_EXCLUDE, ATTACHMENT, AGENT}}
    return type(base)(base.__name__, (_GuardedChatClient, base), members)


def guarded_copy(client: Any, **more: Any) -> Any:
    """Returns a copy of a chat client, which shares its connections and has a guard."""
    own: Any = type(client)
    kind = guarded_class(own)
    created = object.__new__(kind)
    vars(created).update(vars(copy.copy(client)))
    vars(created).update(more)
    return created


class _GuardedChatClient:
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
            return approvals.streamed(
                setup.answers, respond, setup.note_rejections, (options or {}).get("response_format")
            )
        return approvals.answered(setup.answers, respond, setup.note_rejections)


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

_PARTS = ("get_response", "function_invocation_configuration")
_MOST = 1000


class ClientAttachment(HostAdapter[runs.ClientScope]):
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
        super().__init__(guard, runs.SURROUNDINGS, named, runs.UNNAMED)
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
            [
                *(agent.default_options.get("tools") or ()),
                *(tool for server in agent.mcp_tools for tool in server.functions),
            ]
        )
        if all(server.is_connected for server in agent.mcp_tools):
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
        for tool in client.function_invocation_configuration.get("additional_tools") or ():
            if tool.name not in self._unguarded:
                raise _outside(tool.name, "is an additional tool, which the program runs by itself")

    # --- tools

    def tools(self, tools: Any, skipped: Collection[str] = ()) -> list[Any]:
        """Returns the guarded tools.

        Args:
            tools: as the host takes them.
            skipped: names that are no tools for rules, as those of hand-offs.

        Raises:
            InputError: a tool cannot be guarded.
        """
        own = [original_of(tool) for tool in normalize_tools(tools)]
        created = [self.tool(tool, listed=_name_of(tool) not in skipped) for tool in own]
        late: Collection[str] = ()
        if self.servers or self._with_servers:
            known = [server for server in self.servers if server.is_connected]
            late = update_servers(self.guard, [tool for tool in own if isinstance(tool, FunctionTool)], known)
        return [_without_description(tool) if _name_of(tool) in late else tool for tool in created]

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
        known = self._guarded.get(id(tool))
        if known is None or known[0] != facts:
            if len(self._guarded) >= _MOST:
                self._guarded.clear()  # a program may make new tools for each run
            known = self._guarded[id(tool)] = facts, self._guarded_tool(tool, listed=listed)
        return known[1]

    def _guarded_tool(self, tool: FunctionTool, *, listed: bool) -> FunctionTool:
        if (inner := agent_in(tool)) is not None:
            self.guard_all(
                agent for agent in agents_of(inner) if isinstance(agent, RawAgent) and not self._guards(agent)
            )
        arguments = FunctionToolArguments.of(tool, self._unjudged.get(tool.name, ()))
        created = guarded_tool(tool, arguments, self)
        self.arguments[tool.name] = arguments
        self._with_servers = self._with_servers or arguments.server
        if listed:
            self.listed.add(arguments.spec)
        return created

    def refresh(self, tools: Any, run: runs.ClientRun) -> None:
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
