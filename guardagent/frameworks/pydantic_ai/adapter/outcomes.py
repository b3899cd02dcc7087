"""The results of tools, as rules read them."""

from __future__ import annotations

from typing import Any

from pydantic_ai import CallDeferred, ModelRetry, ToolFailed, ToolReturn
from pydantic_ai.exceptions import RunCancelled

from guardagent.enforcement import Outcome
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.hosts import finished
from guardagent.errors import InputError, error_text


def finished_output(name: str, result: Any) -> Any:
    """Returns what a tool has returned, if its work is done.

    Raises:
        ToolFailed: it is not, as that of a generator; the model reads why.
    """
    try:
        finished(name, result.return_value if isinstance(result, ToolReturn) else result)
    except (InputError, TimeoutError) as error:
        raise ToolFailed(str(error)) from error
    return result


def outcome_of(result: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned: a value, or a ToolReturn."""
    if isinstance(result, ToolReturn):
        return Outcome(_plain(result.return_value), other_outputs=(_plain(result.content),))
    return Outcome(_plain(result))


def failure_of(error: BaseException) -> Outcome | None:
    """Returns a call's outcome from what its tool has raised; None if it goes on elsewhere.

    The host reports a time-out as a retry, and the cancellation of an agent in a tool as an error; the tool may have
    done its work.
    """
    if isinstance(error, CallDeferred):
        return None
    late = isinstance(error, ModelRetry | ToolFailed) and isinstance(error.__cause__ or error.__context__, TimeoutError)
    if late or isinstance(error, RunCancelled):
        return Outcome(error_text(error), failed=None)
    return Outcome.of_error(error)


def _plain(value: Any) -> Any:
    try:
        return plain_value(value)
    except InputError:
        return str(value)
