"""The final answer, judged before the user sees it."""

from __future__ import annotations

import json
from typing import Any

from crewai.lite_agent_output import LiteAgentOutput
from crewai.tasks.task_output import TaskOutput

from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.hosts import withheld
from guardagent.errors import InputError
from guardagent.frameworks.crewai.adapter.runs import scope
from guardagent.types import Verdict


def denial(guard: EnforcementPoint, request: str, *parts: Any) -> Verdict | None:
    """Returns the verdict that denies a run's final answer; None if the user may see it.

    Args:
        guard: judges it.
        request: the user's text.
        parts: the answer's text and, if it has one, its structured form.
    """
    around = scope()
    if not guard.judges_answers or around is None or around.run is None or around.call is not None:
        return None  # the answer of an agent in a tool is for the agent that called it
    run, text = around.run, "\n".join(answer_text(one) for one in parts if one is not None)
    if text in run.passed or (run.final is not None and text == run.final):
        return None
    verdict = guard.answer(around.conversation or "", request, text)
    run.passed.update([withheld(verdict)] if verdict.label else [text])
    if verdict.label:
        run.note("answer", verdict)
        if run.halted is not None:
            raise run.halted
    return verdict if verdict.label else None


def judge_task(guard: EnforcementPoint, output: TaskOutput) -> None:
    """Judges the output of a crew's last task, and takes a denied answer out of it."""
    structured = [one for one in (output.pydantic, output.json_dict) if one is not None]
    parts = [one for one in structured if answer_text(one) != output.raw]
    verdict = denial(guard, output.description, output.raw, *parts)
    if verdict is not None:
        output.raw, output.pydantic, output.json_dict, output.messages = withheld(verdict), None, None, []


def judge_output(guard: EnforcementPoint, request: str, output: LiteAgentOutput) -> LiteAgentOutput:
    """Returns the output of an agent's kickoff, without a denied answer."""
    structured = output.pydantic if answer_text(output.pydantic) != output.raw else None
    verdict = denial(guard, request, output.raw, structured)
    if verdict is None:
        return output
    return LiteAgentOutput(raw=withheld(verdict), agent_role=output.agent_role, usage_metrics=output.usage_metrics)


def judge_result(guard: EnforcementPoint, request: str, result: Any) -> Any:
    """Returns the result of a task that an agent ran without a guarded crew, or the reason why it is withheld."""
    verdict = denial(guard, request, result)
    return result if verdict is None else withheld(verdict)


def answer_text(answer: Any) -> str:
    """Returns an answer as rules read it."""
    if isinstance(answer, str):
        return str.__str__(answer)
    if hasattr(answer, "model_dump_json"):
        return str(answer.model_dump_json())
    try:
        return json.dumps(plain_value(answer), ensure_ascii=False, default=str)
    except (InputError, TypeError, ValueError):
        return str(answer)
