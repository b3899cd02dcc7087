"""Errors as answers."""

from __future__ import annotations

import logging
from typing import Any

from guardagent._support.http import Head, RefusedError
from guardagent.enforcement.wire import WireError, write_verdict
from guardagent.errors import (
    AccessError,
    ForbiddenError,
    GuardError,
    InputError,
    UnauthenticatedError,
    error_text,
)
from guardagent.server.service.requests import (
    RepeatedKeyError,
    RequestConflictError,
    RequestRunningError,
    UnknownItemError,
)
from guardagent.types import unchecked_verdict

_CHALLENGE = b'Bearer realm="guardagent"'
_CODES = {
    400: "invalid_request",
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    415: "wrong_type",
    421: "unknown_host",
    422: "invalid",
    503: "unavailable",
}
_STATUSES = ((UnknownItemError, 404), (RequestConflictError, 409), (RepeatedKeyError, 422))
_log = logging.getLogger("guardagent")


def error_answer(error: Exception, *, has_verdict: bool) -> tuple[int, dict[str, Any], Head]:
    """Returns the status, the body and more headers of the answer to a request that failed.

    Args:
        error: why it failed.
        has_verdict: whether the answer would have a verdict; then it has a denial, so that no client reads the error
            as something else.
    """
    status, message, where, head = _parts(error)
    body: dict[str, Any] = {"error": {"code": _CODES.get(status, "error"), "message": message, "where": where}}
    if has_verdict and status >= 500:
        body["verdict"] = write_verdict(unchecked_verdict(message, checked_by="policy"))
    return status, body, head


def _parts(error: Exception) -> tuple[int, str, str, Head]:
    if isinstance(error, RefusedError):
        return error.status, str(error), "", error.head or []
    if isinstance(error, UnauthenticatedError):
        return 401, str(error), "", [(b"www-authenticate", _CHALLENGE + b', error="invalid_token"')]
    if isinstance(error, ForbiddenError):
        return 403, str(error), "", [(b"www-authenticate", _CHALLENGE + b', error="insufficient_scope"')]
    if isinstance(error, AccessError):
        _log.error("a request is refused: %s", error)
        return 503, "callers cannot be identified at present", "", _RETRY
    if isinstance(error, RequestRunningError):
        return 409, str(error), "Idempotency-Key", _RETRY
    if isinstance(error, WireError):
        return 422, error.problem, error.where, []
    if isinstance(error, InputError):
        return next((status for kind, status in _STATUSES if isinstance(error, kind)), 422), str(error), "", []
    if isinstance(error, GuardError):
        _log.error("a request failed: %s", error)
        return 503, "the state cannot be read or written at present", "", _RETRY
    _log.error("a request failed: %s", error_text(error), exc_info=error)
    return 500, "the server failed; its log has more", "", []


_RETRY: Head = [(b"retry-after", b"1")]
