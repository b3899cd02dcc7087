"""The results of tools, as rules read them."""

from __future__ import annotations

from typing import Any

from crewai.tools.tool_failure import ToolFailure

from guardagent.enforcement import Outcome
from guardagent.enforcement.calls import plain_value
from guardagent.errors import InputError, error_text


def outcome_of(output: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned."""
    if isinstance(output, ToolFailure):
        return Outcome(output.as_agent_message(), failed=True, other_outputs=(_plain(output.details),))
    return Outcome(_plain(output))


def outcome_of_error(error: BaseException, *, remote: bool) -> Outcome:
    """Returns the outcome of a tool that raised.

    Args:
        error: what it raised.
        remote: whether the tool runs on a server; then nobody knows whether it has done its work.
    """
    lost = remote or any(isinstance(one, TimeoutError) for one in _chain(error))
    return Outcome(error_text(error), failed=None) if lost and isinstance(error, Exception) else Outcome.of_error(error)


def _chain(error: BaseException) -> list[BaseException]:
    found = [error]
    for one in found:
        cause = one.__cause__ or one.__context__
        if cause is not None and cause not in found:
            found.append(cause)
    return found


def _plain(value: Any) -> Any:
    try:
        return plain_value(value)
    except InputError:
        return str(value)
