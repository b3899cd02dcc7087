"""The results of tools, as rules read them."""

from __future__ import annotations

from typing import Any

from ag2.events import TextInput, ToolErrorEvent
from ag2.tools import ToolResult

from guardagent.enforcement import Outcome
from guardagent.enforcement.calls import plain_value
from guardagent.errors import InputError


def outcome_of(value: Any) -> Outcome:
    """Returns a call's outcome from what its function has returned."""
    if isinstance(value, ToolResult):
        parts = [
            one.content if isinstance(one, TextInput) else _plain(getattr(one, "data", one)) for one in value.parts
        ]
        return Outcome(parts[0] if len(parts) == 1 else parts, other_outputs=(parts,))
    return Outcome(_plain(value))


def outcome_of_event(event: Any) -> Outcome:
    """Returns a call's outcome from the event of a tool of a server."""
    if isinstance(event, ToolErrorEvent):
        return Outcome(str(event.error), failed=True)
    return outcome_of(event.result)


def _data(part: Any) -> Any:
    return getattr(part, "data", part)


def _plain(value: Any) -> Any:
    try:
        return plain_value(value)
    except InputError:
        return str(value)
