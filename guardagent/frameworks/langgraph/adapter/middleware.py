"""A guard as a middleware of `create_agent`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any

from langchain.agents.middleware import AgentMiddleware, hook_config
from langchain_core.messages import AIMessage

from guardagent.enforcement import EnforcementPoint
from guardagent.frameworks.langgraph.adapter.answers import Answers, without_answer, without_ending
from guardagent.frameworks.langgraph.adapter.calls import GuardedCalls
from guardagent.frameworks.langgraph.adapter.messages import messages_of
from guardagent.frameworks.langgraph.adapter.proposal import MARK, conversation_of, require_nested


class GuardMiddleware(AgentMiddleware):
    """Judges every call of an agent's tools at the tool, and its answers if the guard has `answers`.

        create_agent(model, tools, middleware=[..., GuardMiddleware(guard)], checkpointer=...)

    Put it last. A later middleware may change arguments, and the changed ones are judged; if it answers a call itself
    or calls another tool instead, the call is refused.

    Args:
        guard: decides. Agents of one conversation share it.
        tools: the agent's tools, to compare them with the rules now; otherwise this happens before the first model
            call.
        unguarded: tools that the model's provider runs, and that may run unjudged.
        nested: whether the agent runs only within a guarded tool of another agent, so that it cannot begin a
            conversation without history if the tool starts it in a thread.

    Raises:
        InputError: a rule names a tool that is probably a misspelling of one of these.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        tools: Iterable[Any] = (),
        *,
        unguarded: Collection[str] = (),
        nested: bool = False,
    ) -> None:
        super().__init__()
        self.guard, self._nested = guard, nested
        self._calls = GuardedCalls(guard, unguarded=unguarded, nested=nested)
        self._answers = Answers(guard)
        self._calls.attach(as_tools(tools))

    def before_agent(self, state: Any, runtime: Any) -> None:  # noqa: ARG002 - the host's signature
        """Refuses a run without a conversation id, and a nested agent that runs outside a guarded tool."""
        if self._nested:
            require_nested(self.guard, _config())
        conversation_of(self.guard, _config())

    @hook_config(can_jump_to=["end"])
    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002 - as above
        """Ends the run after the agent's last replan: control returns to the user, with the reason."""
        for message in reversed(messages_of(state)):
            if getattr(message, "type", "") != "tool":
                return None
            artifact = message.artifact
            denial = artifact.get(MARK) if isinstance(artifact, Mapping) else None
            if isinstance(denial, Mapping) and denial.get("gave_up"):
                return {"jump_to": "end", "messages": [AIMessage(content="\n".join(map(str, denial["reasons"])))]}
        return None

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Attaches new tools, and judges the answer before a user sees it."""
        self._calls.attach(request.tools)
        response = handler(self._answers.without_streaming(request))
        verdict = self._answers.denial(self._answers.of_model(request, response))
        return response if verdict is None else without_answer(response, verdict)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """As `wrap_model_call`."""
        self._calls.attach(request.tools)
        response = await handler(self._answers.without_streaming(request))
        verdict = await self._answers.adenial(self._answers.of_model(request, response))
        return response if verdict is None else without_answer(response, verdict)

    def after_agent(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002 - as above
        """Judges the end of a run, unless its answer was judged before."""
        verdict = self._answers.denial(self._answers.of_state(state))
        return None if verdict is None else without_ending(state, verdict)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Judges a call; also for `ToolNode(wrap_tool_call=...)`."""
        return self._calls.wrap(request, handler)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """As `wrap_tool_call`, for `ToolNode(awrap_tool_call=...)`."""
        return await self._calls.awrap(request, handler)


def as_tools(tools: Iterable[Any]) -> list[Any]:
    """Returns the tools, with functions converted by the host's `tool`."""
    from langchain_core.tools import BaseTool, tool

    return [one if isinstance(one, BaseTool | Mapping) else tool(one) for one in tools]


def _config() -> Mapping[str, Any]:
    from langgraph.config import get_config

    return get_config()  # type: ignore[no-any-return]
