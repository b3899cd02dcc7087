"""The plugin that attaches a guard to a runner, or to an app."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.genai import types

from guardagent._support.requirements import require_parts
from guardagent.enforcement import EnforcementPoint
from guardagent.errors import InputError, error_text
from guardagent.frameworks.adk.adapter.answers import AnswerJudge
from guardagent.frameworks.adk.adapter.calls import AdkCalls
from guardagent.frameworks.adk.adapter.inspection import agents_of, live_request, require_guardable, require_own_tools
from guardagent.frameworks.adk.adapter.messages import text_of
from guardagent.frameworks.adk.adapter.runs import AdkRun
from guardagent.frameworks.adk.adapter.tool_lists import ToolLists
from guardagent.frameworks.adk.adapter.tools import guard_tool

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
        require_parts(Runner, "run_async", "run_live")
        names = frozenset(unguarded)
        self.guardagent_calls = AdkCalls(guard, conversation, dict(unjudged or {}), names)
        self._guard, self._unguarded, self._answers = guard, names, AnswerJudge(guard)
        self._tools = ToolLists(guard, self.guardagent_calls.unjudged, names)
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
        self.guardagent_calls.runs.end(invocation_context)

    async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:  # noqa: ARG002
        self.guardagent_calls.runs.end(invocation_context)

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
        """Withholds a model's answer that is denied."""
        run = self._run(callback_context)
        if not self._answers.judges(run):
            return None
        agent = callback_context.get_invocation_context().agent
        structured = getattr(agent, "output_schema", None) is not None
        return await self._answers.response(run, llm_response, _user_text(callback_context), structured=structured)

    async def on_event_callback(self, *, invocation_context: Any, event: Any) -> Any:
        """Withholds an answer that is denied, whoever wrote it; a judged answer does not come word by word."""
        run = self._run(invocation_context)
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
            self.guardagent_calls.propose(tool_context)
        except Exception as error:  # noqa: BLE001 - a tool that is not guarded must not run
            return await self.guardagent_calls.refuse(tool, tool_context, error_text(error))
        return None

    # --- internals

    def _run(self, context: Any) -> AdkRun:
        return self.guardagent_calls.run_of(context)

    def _inspect(self, root: Any) -> None:
        for agent in agents_of(root):
            require_guardable(agent, self._unguarded)


def _user_text(context: Any) -> str:
    """Returns the user's text."""
    return text_of(getattr(context, "user_content", None))
