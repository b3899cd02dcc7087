"""Google ADK: `Runner(agent=agent, plugins=[GuardPlugin(guard)], ...)`, or `App(plugins=[GuardPlugin(guard)], ...)`.

    GuardPlugin(guard)          the tools, hand-offs and answers of every agent that the runner reaches
    questions(event)            the approval requests of an event
    answer(question, decision)  a reviewer's answer, as the next message of the run
    conversation_id(app, user, session)     the guard's id of a session
    RunnerHalted                raised by a run when a rule halts it

Extra: `guardagent[adk]`.

The tools of the agents are compared with the rules, and those of MCP servers with the accepted ones.

The host's hook before a tool sees the arguments too early: a callback of the agent may still change them, and the host
then converts them. So the plugin only sees to it that the tool has a class that judges at the tool. Ways to act past
the tools are refused, unless the operator names them.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, partial
from typing import Any

from guardagent._support.requirements import require, require_parts
from guardagent.frameworks.adk.package import DISTRIBUTIONS, EXTRA, PARTS, TRIED

require(DISTRIBUTIONS, EXTRA, TRIED)

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.authenticated_function_tool import AuthenticatedFunctionTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.genai import types

from guardagent.enforcement import EnforcementPoint, ToolSpec, make_ids_unique
from guardagent.enforcement.host_adapter import UNREAD, unaccepted_names
from guardagent.errors import InputError, error_text
from guardagent.frameworks.adk.adapter.answers import AnswerJudge, answer, questions
from guardagent.frameworks.adk.adapter.calls import AdkInvocation, refuse_unasked, require_distinct, spec_of
from guardagent.frameworks.adk.adapter.runs import AdkAdapter, AdkRun, RunnerHalted, conversation_id, scope, text_of

__all__ = ["GuardPlugin", "RunnerHalted", "answer", "conversation_id", "questions"]

# --- guarded tools

SEAMS = frozenset({"run_async", "_invoke_callable", "_run_generator_as_node"})
MARK = "guardagent_guarded"
_running: ContextVar[tuple[Any, Any, AdkAdapter] | None] = ContextVar("guardagent_adk_running", default=None)


def guard_tool(tool: Any) -> None:
    """Guards a tool in place. It is judged only in a run that has a guard.

    Raises:
        InputError: it cannot be guarded.
    """
    if not isinstance(tool, BaseTool):
        raise InputError(f"this is a {type(tool).__name__}; expected a tool of ADK")
    if not SEAMS.isdisjoint(vars(tool)):
        own = next(variable for variable in vars(tool) if variable in SEAMS)
        raise InputError(f"the tool {tool.name!r} has a {own!r} of its own, so its calls cannot be judged")
    kind: Any = type(tool)
    if hasattr(kind, MARK) or isinstance(tool, SetModelResponseTool):
        return  # that tool only sets the answer, which is judged
    require_parts(tool, *PARTS["BaseTool"].split(), *(PARTS["FunctionTool"].split() if _has_function(kind) else ()))
    try:
        tool.__class__ = guarded_class(kind)
    except TypeError as error:
        raise InputError(f"the tool {tool.name!r} cannot be judged: {error}") from None


@cache
def guarded_class(base: Any) -> Any:
    """Returns the class of a guarded tool."""
    kind = _GuardedFunctionTool if _has_function(base) else _GuardedBaseTool
    return type(base)(base.__name__, (kind, base), {"__module__": base.__module__, MARK: True})


def _has_function(kind: Any) -> bool:
    """Whether the calls of a class of tools all go through its `_invoke_callable`, with the function's arguments."""
    if not issubclass(kind, FunctionTool):
        return False
    runs = {FunctionTool.run_async, AuthenticatedFunctionTool.run_async}
    return kind.run_async in runs and kind._invoke_callable is FunctionTool._invoke_callable  # noqa: SLF001 - the seam


def adapter_of(context: Any) -> AdkAdapter | None:
    """Returns the adapter of a context's runner, or of the tool around it; None if there is no guard."""
    for plugin in context._invocation_context.plugin_manager.plugins:  # noqa: SLF001 - the public method copies it
        if isinstance(adapter := getattr(plugin, "guardagent_adapter", None), AdkAdapter):
            return adapter
    around = scope()
    return around.adapter if around is not None else None


class _GuardedBaseTool(BaseTool):  # a base of its own would change the layout of instances
    """Judges a call with the arguments of `run_async`."""

    async def run_async(self: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
        run, adapter = partial(super().run_async, tool_context=tool_context), adapter_of(tool_context)
        if adapter is None or self.name in adapter.unguarded:
            return await run(args=args)
        invocation = AdkInvocation(adapter, self, tool_context, args)
        if isinstance(self, AgentTool) and not self.include_plugins:
            problem = f"the agent {self.name!r} would run without a guard, as it has include_plugins=False"
            return await invocation.refused(problem)
        return await invocation.answered(lambda judged: run(args=judged))


class _GuardedFunctionTool(BaseTool):
    """Judges a call with the arguments of the function, after the host's conversion."""

    async def run_async(self: Any, *, args: dict[str, Any], tool_context: Any) -> Any:
        adapter = adapter_of(tool_context)
        if adapter is None or self.name in adapter.unguarded:
            return await super().run_async(args=args, tool_context=tool_context)
        try:
            require_distinct(self.name, args)
        except InputError as error:
            return await AdkInvocation(adapter, self, tool_context).refused(str(error))
        token = _running.set((self, tool_context, adapter))
        try:
            return await super().run_async(args=args, tool_context=tool_context)
        finally:
            _running.reset(token)

    async def _invoke_callable(self: Any, target: Any, args_to_call: dict[str, Any]) -> Any:
        run = super()._invoke_callable
        if target is not self.func:
            return await run(target, args_to_call)
        return await self._judged(args_to_call, lambda args: run(target, args))

    async def _run_generator_as_node(self: Any, *, args_to_call: dict[str, Any], tool_context: Any) -> Any:
        run = super()._run_generator_as_node
        return await self._judged(args_to_call, lambda args: run(args_to_call=args, tool_context=tool_context))

    async def _judged(self: Any, args: Mapping[str, Any], work: Callable[[dict[str, Any]], Any]) -> Any:
        running = _running.get()
        if running is None or running[0] is not self:
            return await work(dict(args))  # of a run without a guard
        _, context, adapter = running
        return await AdkInvocation(adapter, self, context, args, of_function=True).answered(work)


# --- ways past the tools

CODE = "code_executor"
_ELSEWHERE = ("RemoteA2aAgent", "LangGraphAgent", "ManagedAgent", "AntigravityAgent")
_SEEN = ("function_declarations", "computer_use")  # the host calls the functions of both


def require_guardable(agent: Any, unguarded: frozenset[str]) -> None:
    """Requires that all actions of an agent are calls of tools.

    Raises:
        InputError: it has a way to act without the guard that the operator has not named.
    """
    name = getattr(agent, "name", type(agent).__name__)
    if name in unguarded:
        return
    elsewhere = next((base.__name__ for base in type(agent).__mro__ if base.__name__ in _ELSEWHERE), None)
    if elsewhere is not None:
        _refuse(f"the agent {name!r} is a {elsewhere}, whose tools run elsewhere", name)
    if getattr(agent, "code_executor", None) is not None and CODE not in unguarded:
        _refuse(f"the agent {name!r} has a code executor, which runs a model's code without a tool", CODE)
    if getattr(agent, "mode", None) == "task" and getattr(agent, "parent_agent", None) is not None:
        _refuse(
            f"the agent {name!r} has mode='task': ADK runs it even if the call that delegates to it is denied", name
        )
    for tool in getattr(agent, "tools", None) or ():
        if isinstance(tool, AgentTool) and not tool.include_plugins and tool.name not in unguarded:
            _refuse(f"the tool {tool.name!r} has include_plugins=False, so that its agent has no guard", tool.name)


def require_own_tools(request: Any, unguarded: frozenset[str]) -> None:
    """Requires that a request gives the model only tools that run here.

    Raises:
        InputError: a tool runs at the provider of the model.
    """
    for tool in getattr(request.config, "tools", None) or ():
        fields = getattr(type(tool), "model_fields", None)
        if fields is None:
            _refuse(f"{type(tool).__name__} is not a declaration of functions, so others may run it", "its name")
        for name in fields or ():
            if name not in (*_SEEN, *_named(unguarded)) and getattr(tool, name) is not None:
                _refuse(f"the tool {name!r} runs at the provider of the model, where no guard sees it", name)
    if getattr(request.config, "automatic_function_calling", None) is not None and _is_automatic(request.config):
        _refuse("the client of the model would call functions by itself (automatic_function_calling)", "its name")


async def live_request(agent: Any, context: Any) -> LlmRequest:
    """Returns a request with the tools that an agent gives to a live model."""
    request = LlmRequest()
    if not isinstance(agent, LlmAgent):
        return request
    request.model = agent.canonical_live_model.model
    for tool in await agent.canonical_tools(ReadonlyContext(context.get_invocation_context())):
        await tool.process_llm_request(tool_context=context, llm_request=request)
    return request


def agents_of(root: Any) -> Iterator[Any]:
    """Yields an agent or a node, and all that it declares: sub-agents, agents as tools, and nodes of a workflow."""
    known, waiting = set[int](), [root]
    while waiting:
        member = waiting.pop()
        if id(member) in known:
            continue
        known.add(id(member))
        yield member
        waiting += getattr(member, "sub_agents", None) or ()
        waiting += [tool.agent for tool in getattr(member, "tools", None) or () if isinstance(tool, AgentTool)]
        children = getattr(member, "_iter_static_children", None)
        waiting += children() if children is not None else ()


def declared_tools(root: Any) -> tuple[list[Any], list[Any]]:
    """Returns the tools that agents declare, and the sets of tools, which only running them lists."""
    tools, sets = list[Any](), list[Any]()
    for agent in agents_of(root):
        if isinstance(tool := getattr(agent, "tool", None), BaseTool):  # a tool as a node of a workflow
            tools.append(tool)
        for listed_tool in getattr(agent, "tools", None) or ():
            if isinstance(listed_tool, BaseToolset):
                sets.append(listed_tool)
            elif isinstance(listed_tool, BaseTool):
                tools.append(listed_tool)
            elif callable(listed_tool) and not isinstance(listed_tool, BaseAgent):
                tools.append(FunctionTool(listed_tool))
    return tools, sets


def _named(unguarded: frozenset[str]) -> frozenset[str]:
    return unguarded | {"code_execution"} if CODE in unguarded else unguarded  # of a BuiltInCodeExecutor


def _is_automatic(config: Any) -> bool:
    calling = config.automatic_function_calling
    return not calling.disable and any(callable(tool) for tool in config.tools or ())


def _refuse(problem: str, name: str) -> None:
    raise InputError(f"{problem}; take it away, or say unguarded={{{name!r}}} if it may run without a guard")


# --- the plug-in


# --- the tools of the agents

MAX_KNOWN = 4096


class ToolLists:
    """The tools that the agents of one plugin have.

    Args:
        adapter: has the guard, which compares them with its rules.
    """

    def __init__(self, adapter: AdkAdapter) -> None:
        self._adapter, self._listed = adapter, adapter.listed
        self._read: dict[tuple[Any, ...], ToolSpec] = {}
        self._roots: dict[int, weakref.ref[Any]] = {}  # an agent built per request goes with it, and so do its toolsets
        self._unlisted: weakref.WeakSet[Any] = weakref.WeakSet()

    def check_declared(self, root: Any) -> None:
        """Compares the tools that agents declare with the rules, once. Toolsets are compared once they are listed.

        Raises:
            InputError: a tool cannot be guarded, or a rule names one that is probably a misspelling.
        """
        known = self._roots.get(id(root))
        if root is None or (known is not None and known() is root):  # None: the agents come one by one
            return
        tools, sets = declared_tools(root)
        self._list(tools)
        self._unlisted.update(sets)
        if not self._unlisted:
            self._listed.check()
        self._roots[id(root)] = weakref.ref(root)

    async def update(self, context: Any, request: Any) -> None:
        """Compares the tools in a request to a model. The model does not read unaccepted descriptions of servers.

        Raises:
            InputError: as `check_declared`.
        """
        agent, tools = context.get_invocation_context().agent, list(request.tools_dict.values())
        self._list(tools)
        late = self._update_servers(agent, tools)
        try:
            self._listed.check()
        except InputError:
            if not self._unlisted:
                raise
            await self._list_all(context)  # the rule may name a tool of another agent
        for declared in getattr(request.config, "tools", None) or () if late else ():
            for declaration in getattr(declared, "function_declarations", None) or ():
                if declaration.name in late:
                    declaration.description, declaration.parameters, declaration.parameters_json_schema = (
                        UNREAD,
                        None,
                        None,
                    )

    async def _list_all(self, context: Any) -> None:
        """Lists the toolsets of all agents."""
        reader = ReadonlyContext(context.get_invocation_context())
        for toolset in list(self._unlisted):
            self._list(await toolset.get_tools_with_prefix(reader))
            self._unlisted.discard(toolset)
        self._listed.check()

    def _list(self, tools: Iterable[Any]) -> None:
        for tool in tools:
            if isinstance(tool, SetModelResponseTool | TransferToAgentTool) or tool.name in self._adapter.unguarded:
                continue
            self._listed.add(self._spec(tool))

    def _spec(self, tool: Any) -> ToolSpec:
        """Returns the declaration of a tool; that of a function is read once, as the host builds its tool anew."""
        if type(tool).__name__ != FunctionTool.__name__:
            return spec_of(tool, self._adapter.unjudged(tool))
        key = (tool.name, _identity(tool.func))
        if key not in self._read:
            if len(self._read) >= MAX_KNOWN:
                self._read.clear()
            self._read[key] = spec_of(tool, self._adapter.unjudged(tool))
        return self._read[key]

    def _update_servers(self, agent: Any, tools: Iterable[Any]) -> set[str]:
        keys = [
            server_of(agent_tool) for agent_tool in getattr(agent, "tools", None) or ()
        ]  # a server may have no tool yet
        servers: dict[str, list[ToolSpec]] = {f"{key} of {agent.name}": [] for key in keys if key is not None}
        for tool in tools:
            if (server := server_of(tool)) is not None and tool.name not in self._adapter.unguarded:
                servers.setdefault(f"{server} of {agent.name}", []).append(self._listed.specs[tool.name])
        return unaccepted_names(self._adapter.guard, servers)


def server_of(tool: Any) -> str | None:
    """Returns the key of the server of an MCP tool, or of a toolset; None for others."""
    manager = getattr(tool, "_mcp_session_manager", None)
    if manager is None:
        return None
    parameters = getattr(manager, "_connection_params", None)
    inner = getattr(parameters, "server_params", parameters)
    shown = getattr(inner, "url", None) or getattr(inner, "command", None) or type(inner).__name__
    address = [shown, getattr(inner, "args", None)]
    return f"{shown} ({hashlib.sha256(repr(address).encode()).hexdigest()[:8]})"


def _identity(function: Any) -> Any:
    try:
        hash(function)
    except TypeError:
        return id(function)
    return function


# --- the plugin

NAME = "guardagent"


class GuardPlugin(BasePlugin):
    """Guards every agent that a runner reaches: `Runner(agent=agent, plugins=[GuardPlugin(guard)], ...)`.

    Args:
        guard: decides.
        agent: the root agent, to check it now; otherwise its first run checks it.
        conversation: returns the conversation's id for a context of ADK; by default it is that of the session with its
            app and user, see `conversation_id`.
        unjudged: tool -> arguments that the program supplies and no rule needs; they are passed on unchanged, and
            neither judged nor logged.
        unguarded: the names of what may run without a guard: tools, those of the model's provider (`google_search`),
            agents that run elsewhere, `code_executor`.

    Raises:
        InputError: a tool of the agent cannot be guarded, or a rule names one that is probably a misspelling.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        agent: Any = None,
        *,
        conversation: Callable[[Any], str | None] | None = None,
        unjudged: Mapping[str, Collection[str]] | None = None,
        unguarded: Collection[str] = (),
    ) -> None:
        super().__init__(name=NAME)
        if isinstance(unguarded, str):
            raise InputError(f"unguarded is {unguarded!r}; expected a set of names")
        require_parts(Runner, *PARTS["Runner"].split())
        names = frozenset(unguarded)
        self.guardagent_adapter = AdkAdapter(guard, conversation, dict(unjudged or {}), names)
        self._guard, self._unguarded, self._answers = guard, names, AnswerJudge(guard)
        self._tools = ToolLists(self.guardagent_adapter)
        if agent is not None:
            self._inspect(agent)
            self._tools.check_declared(agent)

    # --- a run

    async def before_run_callback(self, *, invocation_context: Any) -> Any:
        """Checks the agents, and begins the user's turn.

        Raises:
            InputError: an agent cannot be guarded; the host stops the run.
        """
        if invocation_context.plugin_manager.plugins[0] is not self:
            raise InputError(
                "a plugin before the GuardPlugin could skip it; expected it first: plugins=[GuardPlugin(...), ...]"
            )
        run = self._run(invocation_context)
        if self._answers.judges(run) and invocation_context.live_request_queue is not None:
            raise InputError(
                "the answers of this agent are judged before they are seen; expected run_async, not run_live"
            )
        root = getattr(invocation_context.agent, "root_agent", invocation_context.agent)
        self._inspect(root)
        self._tools.check_declared(root)
        if not run.nested and run.conversation:
            self._guard.turn(run.conversation)
        return None

    async def after_run_callback(self, *, invocation_context: Any) -> None:
        self.guardagent_adapter.end(invocation_context)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:  # noqa: ARG002
        self.guardagent_adapter.end(invocation_context)

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> types.Content | None:
        """Requires that an agent can be guarded. After a halt, or once an agent gave up, none begins.

        Raises:
            InputError: it cannot be guarded; the host stops the run.
            RunnerHalted: the run is halted.
        """
        require_guardable(agent, self._unguarded)
        run = self._run(callback_context)
        if callback_context.get_invocation_context().live_request_queue is not None:  # its hook before a model is late
            request = await live_request(agent, callback_context)
            require_own_tools(request, self._unguarded)
            await self._tools.update(callback_context, request)
        if run.halted is not None:
            raise run.halted
        return types.Content(role="model", parts=[]) if run.final is not None else None

    # --- the model

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> LlmResponse | None:
        """Compares the model's tools with the rules. After a halt, or once the agent gave up, no model is called.

        Raises:
            InputError: a tool cannot be guarded; the host stops the run.
            RunnerHalted: the run is halted.
        """
        run = self._run(callback_context)
        if run.halted is not None:
            raise run.halted
        if run.final is not None:
            return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=run.final)]))
        require_own_tools(llm_request, self._unguarded)
        await self._tools.update(callback_context, llm_request)
        return None

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> LlmResponse | None:
        """Makes the ids of a model's calls unique, and withholds an answer that is denied."""
        parts = llm_response.content.parts if llm_response.content is not None else None
        make_ids_unique((part.function_call for part in parts or () if part.function_call is not None), "id")
        run = self._run(callback_context)
        if not self._answers.judges(run):
            return None
        agent = callback_context.get_invocation_context().agent
        structured = getattr(agent, "output_schema", None) is not None
        return await self._answers.response(run, llm_response, _user_text(callback_context), structured=structured)

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
        """Withholds an answer that is denied, whoever wrote it; a judged answer is not streamed."""
        run = self._run(invocation_context)
        await refuse_unasked(self._guard, run, event)
        if not self._answers.judges(run):
            return None
        return await self._answers.event(run, event, _user_text(invocation_context))

    # --- a tool

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """Sees to it that the tool judges its call. Returns the denial if it cannot."""
        if tool.name in self._unguarded:
            return None
        try:
            guard_tool(tool)
            self.guardagent_adapter.propose(tool_context)
        except Exception as error:  # noqa: BLE001 - a tool that is not guarded must not run
            invocation = AdkInvocation(self.guardagent_adapter, tool, tool_context)
            return await invocation.refused(error_text(error))
        return None

    # --- internals

    def _run(self, context: Any) -> AdkRun:
        return self.guardagent_adapter.run_of(context)

    def _inspect(self, root: Any) -> None:
        for agent in agents_of(root):
            require_guardable(agent, self._unguarded)


def _user_text(context: Any) -> str:
    """Returns the user's text."""
    return text_of(getattr(context, "user_content", None))
