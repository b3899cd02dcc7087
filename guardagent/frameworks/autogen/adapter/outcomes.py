"""The results of tools, as rules read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autogen_agentchat.base import TaskResult
from autogen_core.code_executor import CodeResult
from autogen_core.tools import ImageResultContent, ToolResult

from guardagent.enforcement import Outcome
from guardagent.enforcement.calls import plain_value
from guardagent.errors import InputError


def outcome_of(value: Any, as_string: Callable[[Any], str]) -> Outcome:
    """Returns a call's outcome from what its tool has returned.

    Args:
        value: a value, or the result of an agent's or a team's run.
        as_string: the form that the model reads.
    """
    try:
        text = as_string(value)
    except Exception:  # noqa: BLE001 - the tool's own code; the host will show its error
        text = str(value)
    if isinstance(value, TaskResult):
        return Outcome(text)
    try:
        return Outcome(plain_value(value), other_outputs=(text,))
    except InputError:
        return Outcome(text)


def outcome_of_result(result: ToolResult) -> Outcome:
    """Returns a call's outcome from the result of a workbench."""
    parts = ["[image]" if isinstance(one, ImageResultContent) else one.content for one in result.result]
    return Outcome("\n".join(parts), failed=result.is_error, other_outputs=(parts,))


def outcome_of_code(result: CodeResult) -> Outcome:
    """Returns the outcome of executed code: an exit code other than 0 is a failure."""
    return Outcome(result.output, failed=result.exit_code != 0)
