"""The final answer, judged before the user sees it, also in the stream of events."""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.agent.workflow.workflow_events import AgentOutput, AgentStream, AgentStreamStructuredOutput
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import ToolOutput

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.hosts import withheld
from guardagent.errors import InputError
from guardagent.frameworks.llama_index.adapter.messages import last_user_text
from guardagent.frameworks.llama_index.adapter.runs import scope
from guardagent.types import Verdict


class HoldingContext:
    """A workflow's context that holds its events until they are released.

    Args:
        ctx: the context itself.
    """

    def __init__(self, ctx: Any) -> None:
        self._ctx, self._events = ctx, list[Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)

    def write_event_to_stream(self, event: Any) -> None:
        self._events.append(event)

    def release(self, *, withheld: AgentOutput | None = None) -> None:
        """Writes the events; those with a denied answer not, and its output in the withheld form."""
        for event in self._events:
            if withheld is None or not isinstance(event, AgentStream | AgentOutput | AgentStreamStructuredOutput):
                self._ctx.write_event_to_stream(event)
        if withheld is not None:
            self._ctx.write_event_to_stream(withheld)
        self._events.clear()


async def denial(guard: EnforcementPoint, *parts: Any) -> Verdict | None:
    """Returns the verdict that denies a run's final answer; None if the user may see it."""
    around = scope()
    run = around.run if around is not None else None
    if not guard.judges_answers or around is None or run is None or around.call is not None:
        return None  # the answer of an agent in a tool is for the agent that called it
    text = "\n".join(_text(one) for one in parts if one is not None)
    if text in run.passed or (run.final is not None and text == run.final):
        return None
    verdict = await guard.aanswer(around.conversation or "", last_user_text(run.messages), text)
    run.passed.update([withheld(verdict)] if verdict.label else [text, *map(_text, parts)])
    if verdict.label:
        run.note("answer", verdict)
        if run.halted is not None:
            raise run.halted
    return verdict if verdict.label else None


def without_answer(output: AgentOutput, verdict: Verdict) -> AgentOutput:
    """Takes the answer out of a model's output."""
    output.response = ChatMessage(role="assistant", content=withheld(verdict))
    output.raw = output.structured_response = None
    return output


def without_result(result: ToolOutput, verdict: Verdict) -> ToolOutput:
    """Returns the error in place of a tool's output that would have been the answer."""
    text = withheld(verdict)
    return ToolOutput(tool_name=result.tool_name, content=text, raw_input={}, raw_output=text, is_error=True)


def _text(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    try:
        return json.dumps(plain_value(answer), ensure_ascii=False, default=str)
    except (InputError, TypeError, ValueError):
        return str(answer)
