"""What happened on the way to a generated verdict, step by step: for whoever must debug a decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from guardagent.models import Message
from guardagent.types import ToolCall

StepName = Literal["retrieve", "plan", "code", "debug", "run", "judge"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a generating flow (paper, Sections 4.2 and 4.3).

    Attributes:
        name: what was done.
        prompt: what a model was asked, where one was.
        text: what came of it: the demonstrations that were retrieved, a model's answer, or the code that ran.
        error: what was wrong with it.
        kind: what kind of error that is, for code.
        calls: the toolbox calls of a run.
        vote: which of several plans it belongs to, from 0.
    """

    name: StepName
    prompt: tuple[Message, ...] = ()
    text: str = ""
    error: str | None = None
    kind: str | None = None
    calls: tuple[ToolCall, ...] = ()
    vote: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "vote": self.vote,
            "prompt": [{"role": message.role, "content": message.content} for message in self.prompt],
            "text": self.text,
            "error": self.error,
            "kind": self.kind,
            "calls": [call.to_dict() for call in self.calls],
        }


def last_code(story: Sequence[Step]) -> str:
    """The last version of the code that ran; empty where none did."""
    return next((step.text for step in reversed(story) if step.name == "run"), "")


def code_versions(story: Sequence[Step]) -> list[Step]:
    """The runs of the code, one for each version that a model wrote, in order."""
    return [step for step in story if step.name == "run"]
