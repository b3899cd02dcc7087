"""The HTTP interface of a server, version 1: how it is served, with few pauses, and errors as answers.

A full collection looks at every object of the process: the rules of a large policy and the sessions in memory alone
take 0.1 seconds and more, and the interpreter starts one whenever their number has grown by a quarter. Nearly
everything here is freed without it, by reference counts.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
from collections.abc import Iterator
from typing import Any

from guardagent._support.http import Head, HttpEndpoint, RefusedError, RequestLimits, serve
from guardagent._support.requirements import require
from guardagent.enforcement.wire import WireError, write_verdict
from guardagent.errors import (
    AccessError,
    ForbiddenError,
    GuardError,
    InputError,
    UnauthenticatedError,
    error_text,
)
from guardagent.server.access import AccessControl
from guardagent.server.service import (
    RepeatedKeyError,
    RequestConflictError,
    RequestRunningError,
    UnknownItemError,
)
from guardagent.server.settings import ServerSettings
from guardagent.types import unchecked_verdict

SECONDS = 60.0
_NEVER = 1_000_000


async def run_server(settings: ServerSettings, access: AccessControl, endpoint: HttpEndpoint[RequestLimits]) -> None:
    """Serves until it is stopped.

    Raises:
        InputError: a setting is invalid, a store cannot be opened, or the address is not available.
    """
    require({"starlette": "0.46", "uvicorn": "0.34", "prometheus-client": "0.26"}, "server")
    from guardagent.server.http.application import ServerApplication
    from guardagent.server.service.guard_service import GuardService

    service = GuardService(settings, access.tokens)
    try:
        with rare_full_collections(), service.webhooks.running(), service.retention.running():
            await serve(ServerApplication(service, access, endpoint.hosts, endpoint.limits), endpoint)
    finally:
        service.close()


@contextlib.contextmanager
def rare_full_collections(seconds: float = SECONDS) -> Iterator[None]:
    """Leaves out what is there already from full collections, and has them take place only once in a while."""
    thresholds = gc.get_threshold()
    stopped = threading.Event()

    def collect() -> None:
        while not stopped.wait(seconds):
            gc.collect()

    gc.collect()
    gc.freeze()
    gc.set_threshold(thresholds[0], thresholds[1], _NEVER)
    thread = threading.Thread(target=collect, name="garbage collection", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        gc.set_threshold(*thresholds)
        gc.unfreeze()


# --- errors as answers

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
