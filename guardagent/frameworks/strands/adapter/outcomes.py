"""The results of tools, as rules read them."""

from __future__ import annotations

from typing import Any

from strands.types._events import ToolResultEvent

from guardagent.enforcement import Outcome
from guardagent.enforcement.calls import plain_value
from guardagent.errors import InputError

RETURNED = "guardagent_returned"
"""The attribute of a result's event with what the tool's function has returned."""


def outcome_of(event: Any) -> Outcome:
    """Returns a call's outcome from the last event of its tool: the host's result, or a result without an event."""
    result, error = (event.tool_result, event.exception) if isinstance(event, ToolResultEvent) else (event, None)
    if isinstance(error, TimeoutError):
        return Outcome.of_error(error)  # it may have done its work
    returned = getattr(event, RETURNED, result)
    if error is None and not _is_result(returned):
        return Outcome(_plain(returned), failed=None if event is None else False)
    failed = error is not None or result.get("status") != "success"
    parts = [_part(one) for one in result.get("content") or ()]
    others = (parts, *([result["structuredContent"]] if "structuredContent" in result else []))
    unknown = result.get("cancelled") is True  # as MCP has it: its server may go on
    return Outcome(parts[0] if len(parts) == 1 else parts, None if unknown else failed, other_outputs=others)


def _is_result(value: Any) -> bool:
    return isinstance(value, dict) and "status" in value and "content" in value


def _part(content: Any) -> Any:
    """Returns a part of a result: text or JSON as it is, another by its kind."""
    if not isinstance(content, dict):
        return str(content)
    return next((content[kind] for kind in ("text", "json") if kind in content), ", ".join(map(str, content)))


def _plain(value: Any) -> Any:
    try:
        return plain_value(value)
    except InputError:
        return str(value)
