"""The final answer, judged before the user sees it: as one of the agent's `final_answer_checks`."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from smolagents.memory import ActionStep, FinalAnswerStep, PlanningStep
from smolagents.models import ChatMessageStreamDelta

from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.hosts import withheld
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.smolagents.adapter.memory import chat
from guardagent.frameworks.smolagents.adapter.runs import SmolagentsScope, enter, scope
from guardagent.types import Verdict, unchecked_verdict

if TYPE_CHECKING:
    from guardagent.enforcement import EnforcementPoint


class AnswerCheck:
    """A check of `final_answer_checks`: a denied answer goes back to the model."""

    __name__ = "guardagent"

    def __init__(self, guard: EnforcementPoint) -> None:
        self.guard = guard

    def __call__(self, final_answer: Any, memory: Any, agent: Any) -> bool:  # noqa: ARG002 - the host's arguments
        verdict = denial(self.guard, final_answer, agent)
        if verdict is not None:
            around = scope()
            if around is not None and around.run is not None:
                around.run.note_denied_answer(verdict)
            raise ToolDenied("final_answer", verdict)
        return True


def denial(guard: EnforcementPoint, answer: Any, agent: Any) -> Verdict | None:
    """Returns the verdict that denies a run's final answer; None if the user may see it."""
    around = scope()
    if not guard.judges_answers or (around is not None and around.call is not None):
        return None  # a managed agent's answer is for the agent that called it
    run = around.run if around is not None else None
    if run is not None and run.final is not None and answer == run.final:
        return None
    if (kind := _class_of_code(answer)) is not None:
        problem = f"the answer has a {kind.__name__}, a class of the code, which may read as anything; use plain values"
        return unchecked_verdict(problem, checked_by="policy")
    users = [one["content"] for one in chat(agent.memory.steps) if one["role"] == "user"]
    conversation = (around.conversation if around is not None else None) or ""
    verdict = guard.answer(conversation, users[-1] if users else "", answer_text(answer))
    return verdict if verdict.label else None


def without_answer(guard: EnforcementPoint, message: Any, agent: Any) -> Any:
    """Returns the model's last answer after its last step, or the reason why it is withheld."""
    verdict = denial(guard, message.content, agent)
    if verdict is not None:
        message.content = withheld(verdict)
    return message


def answer_text(answer: Any) -> str:
    """Returns an answer as rules read it."""
    if isinstance(answer, str):
        return str.__str__(answer)
    try:
        return json.dumps(plain_value(answer), ensure_ascii=False, default=str)
    except (InputError, TypeError, ValueError):
        return str(answer)


def _class_of_code(answer: Any) -> type | None:
    """Returns a class in an answer that no module has, as those that generated code makes; None if there is none."""
    waiting, seen = [answer], set[int]()
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        if kind in (list, tuple, set, frozenset, dict):
            waiting += [*value, *value.values()] if kind is dict else value
            continue
        found: Any = sys.modules.get(str(kind.__module__))
        for name in kind.__qualname__.split("."):
            found = getattr(found, name, None)
        if found is not kind:
            return kind
    return None


def streamed(events: Generator[Any, None, None], around: SmolagentsScope, *, held: bool) -> Iterator[Any]:
    """Yields the events of a run, each made within its surroundings.

    Args:
        events: the run.
        around: its surroundings.
        held: whether its answer is judged. Then the events of a step come after the step, those of a failed one, whose
            answer may have been denied, not at all, and the model's text not word by word.
    """
    waiting: list[Any] = []
    try:
        while True:
            with enter(around):
                try:
                    event = next(events)
                except StopIteration:
                    return
            if not held:
                yield event
            elif not isinstance(event, ChatMessageStreamDelta):
                waiting.append(event)
                if isinstance(event, ActionStep | PlanningStep | FinalAnswerStep):
                    yield from waiting if getattr(event, "error", None) is None else ()
                    waiting.clear()
    finally:
        events.close()
