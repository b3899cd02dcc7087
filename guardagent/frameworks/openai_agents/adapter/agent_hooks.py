"""Hooks of a guarded agent: the behavior after tool calls, and a record of proposed calls."""

from __future__ import annotations

import inspect
from typing import Any

from agents import AgentHooks, ToolsToFinalOutputResult

from guardagent.frameworks.openai_agents.adapter.attachment_base import BaseAttachment
from guardagent.frameworks.openai_agents.adapter.denials import DenialText
from guardagent.frameworks.openai_agents.adapter.messages import texts_of

_GOES_ON = ToolsToFinalOutputResult(is_final_output=False)


class GuardedToolUseBehavior:
    """`Agent.tool_use_behavior`: the operator's, but a denial goes back to the model until it gives up."""

    def __init__(self, attachment: BaseAttachment, before: Any) -> None:
        self._attachment, self._before = attachment, before

    async def __call__(self, context: Any, results: list[Any]) -> Any:
        for result in results:
            if isinstance(result.output, DenialText) and (final := result.output.final) is not None:
                self._attachment.run_of(context).final = final
                return ToolsToFinalOutputResult(is_final_output=True, final_output=final)
        if callable(self._before):
            behavior = self._before(context, results)
            return await behavior if inspect.isawaitable(behavior) else behavior
        return self._of_outputs([one for one in results if not isinstance(one.output, DenialText)], results)

    def _of_outputs(self, created: list[Any], results: list[Any]) -> Any:
        if self._before == "stop_on_first_tool" and created and created[0] is results[0]:
            return ToolsToFinalOutputResult(is_final_output=True, final_output=created[0].output)
        names = self._before.get("stop_at_tool_names", []) if isinstance(self._before, dict) else []
        stops = [one for one in created if one.tool.name in names or one.tool.qualified_name in names]
        return ToolsToFinalOutputResult(is_final_output=True, final_output=stops[0].output) if stops else _GOES_ON


class ProposalHooks(AgentHooks[Any]):
    """`Agent.hooks`: the operator's; also notes what a model says, and the ids of the calls that it proposes."""

    def __init__(self, attachment: BaseAttachment, before: Any) -> None:
        self._attachment, self._before = attachment, before or AgentHooks()

    async def on_start(self, context: Any, agent: Any) -> None:
        await self._before.on_start(context, agent)

    async def on_end(self, context: Any, agent: Any, output: Any) -> None:
        await self._before.on_end(context, agent, output)

    async def on_handoff(self, context: Any, agent: Any, source: Any) -> None:
        await self._before.on_handoff(context, agent, source)

    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        await self._before.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        await self._before.on_tool_end(context, agent, tool, result)

    async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
        await self._before.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        calls = [getattr(one, "call_id", None) for one in response.output]
        self._attachment.propose(context, [one for one in calls if isinstance(one, str)])
        self._attachment.run_of(context).texts = texts_of(response.output)
        await self._before.on_llm_end(context, agent, response)
