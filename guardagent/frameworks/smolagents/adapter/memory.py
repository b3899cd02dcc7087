"""An agent's memory, as rules read it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from smolagents.memory import ActionStep, TaskStep


def chat(steps: Iterable[Any]) -> list[dict[str, str]]:
    """Returns the tasks and the model's messages."""
    messages: list[dict[str, str]] = []
    for step in steps:
        if isinstance(step, TaskStep):
            messages.append({"role": "user", "content": step.task})
        elif isinstance(step, ActionStep) and isinstance(step.model_output, str):
            messages.append({"role": "assistant", "content": step.model_output})
    return messages


def call_key(call: Any) -> str:
    """Returns what identifies a call in the memory: a model may use an id again."""
    return hashlib.sha256(repr((call.id, call.name, call.arguments)).encode(errors="backslashreplace")).hexdigest()


def shown_calls(steps: Sequence[Any]) -> list[tuple[str, str]]:
    """Returns the key and the id of each call that has a result in the memory."""
    return [
        (call_key(call), str(call.id))
        for step in steps
        if isinstance(step, ActionStep)
        for call in step.tool_calls or ()
        if step.observations is not None
    ]
