"""Google ADK: `Runner(agent=agent, plugins=[GuardPlugin(guard)], ...)`, or `App(plugins=[GuardPlugin(guard)], ...)`.

    GuardPlugin(guard)          the tools, hand-offs and answers of every agent that the runner reaches
    questions(event)            the approval requests of an event
    answer(question, decision)  a reviewer's answer, as the next message of the run
    conversation_id(app, user, session)     the guard's id of a session
    RunnerHalted                raised by a run when a rule halts it

Extra: `guardagent[adk]`.

The tools of the agents are compared with the rules, and those of MCP servers with the accepted ones.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from guardagent._support.requirements import require, require_parts, warn_untried
from guardagent.frameworks.adk.package import DISTRIBUTIONS, EXTRA, PARTS, TRIED

require(DISTRIBUTIONS, EXTRA)
warn_untried(TRIED)

from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.set_model_response_tool import SetModelResponseTool
from google.adk.tools.transfer_to_agent_tool import TransferToAgentTool
from google.genai import types

from guardagent.enforcement import EnforcementPoint, ToolSpec, make_ids_unique
from guardagent.enforcement.host_adapter import UNREAD, unaccepted_names
from guardagent.errors import InputError, error_text
from guardagent.frameworks.adk.adapter.answers import AnswerJudge, answer, questions
from guardagent.frameworks.adk.adapter.calls import AdkInvocation, refuse_unasked, spec_of
from guardagent.frameworks.adk.adapter.runs import AdkAdapter, AdkRun, RunnerHalted, conversation_id, text_of
from guardagent.frameworks.adk.adapter.tools import (
    agents_of,
    declared_tools,
    guard_tool,
    live_request,
    require_guardable,
    require_own_tools,
)

__all__ = ["GuardPlugin", "RunnerHalted", "answer", "conversation_id", "questions"]


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
