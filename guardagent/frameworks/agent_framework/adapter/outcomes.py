"""The results of tools, as rules read them."""

from __future__ import annotations

from typing import Any

from agent_framework import Content, MiddlewareFailure, MiddlewareTermination
from agent_framework.exceptions import ToolExecutionException, UserInputRequiredException

from guardagent.enforcement import Outcome
from guardagent.enforcement.calls import plain_value
from guardagent.errors import InputError, error_text

_LOST = (408, -32001, -32000)
"""The codes with which MCP's client reports a time-out or a closed connection: the server did not answer."""


class ServerAnswerLostError(ToolExecutionException):
    """The connection to a server broke during a call, which may have done its work."""


def outcome_of(result: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned: a value, or contents of the host."""
    parts = result if isinstance(result, list) else [result]
    if not any(isinstance(one, Content) for one in parts):
        return Outcome(_plain(result))
    texts = [_text(one) for one in parts]
    failed = any(isinstance(one, Content) and one.type == "error" for one in parts)
    return Outcome(texts[0] if len(texts) == 1 else "\n".join(map(str, texts)), failed=failed, other_outputs=(texts,))


def outcome_of_error(error: BaseException) -> Outcome:
    """Returns the outcome of a tool that raised; one that ends or pauses the run may have done its work."""
    signal = isinstance(error, MiddlewareTermination | MiddlewareFailure | UserInputRequiredException)
    return Outcome(error_text(error), failed=None) if signal else Outcome.of_error(error)


def outcome_of_server_error(error: BaseException) -> Outcome:
    """Returns the outcome of a call to an MCP server: only an answer of the server tells that it failed."""
    cause = error.__cause__
    code = getattr(getattr(cause, "error", None), "code", None)
    answered = cause is None or (code is not None and code not in _LOST)
    if isinstance(error, ToolExecutionException) and (isinstance(error, ServerAnswerLostError) or not answered):
        return Outcome(error_text(error), failed=None)
    return outcome_of_error(error)


def _text(part: Any) -> Any:
    if not isinstance(part, Content):
        return _plain(part)
    if part.type == "text":
        return part.text or ""
    return part.message or "" if part.type == "error" else f"({part.type})"


def _plain(value: Any) -> Any:
    try:
        return plain_value(value)
    except InputError:
        return str(value)
