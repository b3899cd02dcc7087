"""The results of tools, as rules read them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from guardagent.enforcement import Outcome

_LOST = re.compile(  # the host's texts for an answer that was lost: nobody knows what the tool did
    r"^MCP error |timed out|timeout|connection|fetch failed|socket|ECONN|EPIPE|abort|disconnect", re.IGNORECASE
)
_CUT_OFF = "Command timed out"


def outcome_of_response(response: Any) -> Outcome:
    """Returns the outcome of a call from the result that the host's hook shows."""
    parts = _texts(response)
    return Outcome(response) if parts is None else Outcome("\n".join(parts), other_outputs=(parts,))


def outcome_of_failure(found: Mapping[str, Any]) -> Outcome:
    """Returns the outcome of a call from the failure that the host's hook shows."""
    error = str(found.get("error") or "")
    if found.get("is_interrupt"):
        return Outcome(error, failed=None, ended=False)
    of_server = str(found.get("tool_name")).startswith("mcp__")
    lost = _LOST.search(error) is not None if of_server else _CUT_OFF in error
    return Outcome(error, failed=None if lost else True)


def outcome_of_result(result: Any) -> Outcome:
    """Returns the outcome of a call from the result of a tool of this process."""
    plain = plain_result(result)
    parts, structured = _texts(plain.get("content")) or [], plain.get("structuredContent")
    return Outcome("\n".join(parts), failed=bool(plain.get("isError")), other_outputs=(parts, structured))


def plain_result(result: Any) -> dict[str, Any]:
    """Returns a result of MCP as plain values."""
    if hasattr(result, "model_dump"):
        return dict(result.model_dump(by_alias=True, mode="json", exclude_none=True))
    return dict(result or {})


def _texts(content: Any) -> list[str] | None:
    if not isinstance(content, list) or not all(isinstance(one, Mapping) and "type" in one for one in content):
        return None
    return [str(one["text"]) for one in content if one.get("type") == "text" and "text" in one]
