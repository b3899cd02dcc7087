"""The results of tools, as rules read them."""

from __future__ import annotations

from typing import Any

from pydantic_ai import CallDeferred, ModelRetry, ToolReturn

from guardagent.enforcement import Outcome
from guardagent.enforcement.plain_values import plain_value
from guardagent.errors import InputError, error_text


def outcome_of(result: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned: a value, or a ToolReturn."""
    if isinstance(result, ToolReturn):
        return Outcome(_plain(result.return_value), other_outputs=(_plain(result.content),))
    return Outcome(_plain(result))


def failure_of(error: BaseException) -> Outcome | None:
    """Returns a call's outcome from what its tool has raised; None if it goes on elsewhere.

    The host reports a time-out as a retry; the tool may have done its work.
    """
    if isinstance(error, CallDeferred):
        return None
    if isinstance(error, ModelRetry) and isinstance(error.__cause__ or error.__context__, TimeoutError):
        return Outcome(error_text(error), failed=None)
    return Outcome.of_error(error)


def _plain(value: Any) -> Any:
    try:
        return plain_value(value)
    except InputError:
        return str(value)
