"""The results of tools, as rules read them."""

from __future__ import annotations

from typing import Any

from llama_index.core.tools import ToolOutput
from workflows.errors import WorkflowCancelledByUser, WorkflowTimeoutError

from guardagent.enforcement import Outcome
from guardagent.enforcement.calls import plain_value
from guardagent.errors import InputError, error_text


def outcome_of(result: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned: a value, a ToolOutput, or a result of MCP."""
    if isinstance(result, ToolOutput):
        return Outcome(result.content, failed=result.is_error, other_outputs=(_plain(result.raw_output),))
    content = getattr(result, "content", None)
    error = getattr(result, "is_error", getattr(result, "isError", None))
    if isinstance(content, list) and isinstance(error, bool):
        parts = [text for one in content if isinstance(text := getattr(one, "text", None), str)]
        structured = getattr(result, "structured_content", getattr(result, "structuredContent", None))
        return Outcome("\n".join(parts), failed=error, other_outputs=(parts, _plain(structured)))
    return Outcome(_plain(result))


def failure_of(error: BaseException) -> Outcome:
    """Returns a call's outcome from what its tool has raised.

    A workflow in a tool that timed out or was cancelled may have done a part of its work.
    """
    if isinstance(error, WorkflowTimeoutError | WorkflowCancelledByUser):
        return Outcome(error_text(error), failed=None)
    return Outcome.of_error(error)


def _plain(value: Any) -> Any:
    try:
        return plain_value(value)
    except InputError:
        return str(value)
