"""The HTTP interface of a server, version 1: how it is served, with few pauses, and errors as answers.

A full collection looks at every object of the process: the rules of a large policy and the sessions in memory alone
take 0.1 seconds and more, and the interpreter starts one whenever their number has grown by a quarter. Nearly
everything here is freed without it, by reference counts.

Worker processes that accept connections at one socket: `guardagent serve --workers N`.

Beside the socket they share the state alone, as servers on several machines do.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import logging
import socket
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from guardagent._support.http import Head, HttpEndpoint, RefusedError, RequestLimits, serve
from guardagent._support.requirements import require
from guardagent.enforcement.wire import WireError, write_verdict
from guardagent.errors import AccessError, ForbiddenError, GuardError, InputError, UnauthenticatedError, error_text
from guardagent.server.access import AccessControl, Caller
from guardagent.server.service import (
    RepeatedKeyError,
    RequestConflictError,
    RequestRunningError,
    UnknownItemError,
    repeated,
)
from guardagent.server.settings import ServerSettings
from guardagent.types import unchecked_verdict

if TYPE_CHECKING:
    from guardagent.server.service.guard_service import GuardService


import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import connection, get_context, parent_process
from multiprocessing.process import BaseProcess

from guardagent._support.http import listening_socket

# --- worker processes

PAUSE_SECONDS = 10.0  # between two starts in one place, so that a worker that cannot start is no endless load
_LAST_SECONDS = 5.0  # for workers to end
_SPAWN = get_context("spawn")

Serve = Callable[[socket.socket], None]
"""Serves at a socket until SIGTERM, in another process."""


def run_workers(count: int, serve: Serve, endpoint: HttpEndpoint[RequestLimits]) -> None:
    """Runs workers until SIGTERM or SIGINT, and starts another one in place of each that ends.

    Raises:
        SystemExit: SIGTERM came.
        InputError: the address is not available.
    """
    listening = listening_socket(endpoint.host, endpoint.port)
    _log.warning("serving at %s", endpoint.url)  # clients wait at the socket until a worker accepts them
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    workers: dict[int, tuple[BaseProcess, float]] = {}
    try:
        while True:
            for place in range(count):
                worker, since = workers.get(place, (None, 0.0))
                if worker is None or not (worker.is_alive() or time.monotonic() - since < PAUSE_SECONDS):
                    if worker is not None:
                        _log.error("worker %s ended with status %s; another one starts", worker.pid, worker.exitcode)
                    workers[place] = _SPAWN.Process(target=_work, args=(serve, listening)), time.monotonic()
                    workers[place][0].start()
            connection.wait([worker.sentinel for worker, _ in workers.values() if worker.is_alive()], timeout=1.0)
    finally:
        _end([worker for worker, _ in workers.values() if worker.is_alive()])


def _end(workers: list[BaseProcess]) -> None:
    for worker in workers:
        worker.terminate()
    until = time.monotonic() + _LAST_SECONDS
    for worker in workers:
        worker.join(max(0.0, until - time.monotonic()))
        worker.kill()


# --- in a worker


def _work(serve: Serve, listening: socket.socket) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all, and the parent ends the workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        serve(listening)
    except GuardError as error:
        _log.error("%s", error)
        sys.exit(3)


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_LAST_SECONDS)
    os._exit(3)


# --- the server

SECONDS = 60.0
_SWITCH_SECONDS = 0.0005  # after which a thread lets another go on: a commit waits for the event loop many times
_NEVER = 1_000_000


def new_service(settings: ServerSettings, access: AccessControl) -> GuardService:
    """Returns what a server does.

    Raises:
        InputError: a library is missing, a setting is invalid, or a store cannot be opened.
    """
    require({"starlette": "0.46", "uvicorn": "0.34", "prometheus-client": "0.26", "standardwebhooks": "1.1"}, "server")
    from guardagent.server.service.guard_service import GuardService

    return GuardService(settings, access.tokens)


async def run_server(
    settings: ServerSettings,
    access: AccessControl,
    endpoint: HttpEndpoint[RequestLimits],
    listening: socket.socket | None = None,
) -> None:
    """Serves until it is stopped; `listening` is a socket at the address that other processes share.

    Raises:
        InputError: as `new_service`, or the address is not available.
    """
    service = new_service(settings, access)
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        from guardagent.server.http.application import ServerApplication

        running = service.channels.running(), service.log_events.running(), service.retention.running()
        with rare_full_collections(), running[0], running[1], running[2]:
            application = ServerApplication(service, access, endpoint.hosts, endpoint.limits)
            await serve(application, endpoint, listening)
    finally:
        service.close()


@contextlib.contextmanager
def rare_full_collections(seconds: float = SECONDS) -> Iterator[None]:
    """Leaves out what is there already from full collections, and has them take place only once in a while."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(thresholds[0], thresholds[1], _NEVER)
    try:
        with repeated("garbage collection", seconds, lambda _: gc.collect()):
            yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


# --- limits

KNOWN_SECONDS = 60.0  # for which a caller needs no new look at its token before its body is read
NEWCOMERS, NEWCOMER_SECONDS = 64, 5.0  # callers who are not known yet: how many at once, and how long it may take
_MAX_KNOWN = 10_000
_DOOR_THREADS = 4


class Slots:
    """Limits how much goes on at the same time, in all and for each tenant.

    Args:
        what: what it limits, for messages.
        total: the limit in all.
        each: the limit of a tenant; None for no other one.

    Attributes:
        count: how much goes on.
    """

    def __init__(self, what: str, total: int, each: int | None = None) -> None:
        self._what, self._total, self._each = what, total, total if each is None else each
        self._taken = Counter[str]()
        self.count = 0

    def take(self, tenant: str = "") -> None:
        """Takes a slot.

        Raises:
            RefusedError: none is free.
        """
        if self.count >= self._total or self._taken[tenant] >= self._each:
            raise RefusedError(503, f"too many {self._what}", head=_RETRY)
        self.count += 1
        self._taken[tenant] += 1

    def free(self, tenant: str = "") -> None:
        """Gives a slot back."""
        self.count -= 1
        self._taken[tenant] -= 1
        if not self._taken[tenant]:
            del self._taken[tenant]

    @contextlib.contextmanager
    def taken(self, tenant: str = "") -> Iterator[None]:
        """Takes a slot for a while; raises as `take`."""
        self.take(tenant)
        try:
            yield
        finally:
            self.free(tenant)


class KnownCallers:
    """Lets a request pass when its caller is known, before a byte of its body is read.

    Whoever had a valid token a moment ago passes at once; the token is verified again when the body is there. All
    others share a few threads and slots, so that strangers only hold up newcomers, and those for seconds.

    Args:
        access: finds out the callers.
    """

    def __init__(self, access: AccessControl) -> None:
        self._access = access
        self._known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()  # the token's hash -> when, and who
        self._looked_for: dict[bytes, asyncio.Future[Caller]] = {}
        self._newcomers = Slots("callers are not known yet", NEWCOMERS)
        self._threads = ThreadPoolExecutor(_DOOR_THREADS, "callers")

    async def admit(self, authorization: Sequence[str]) -> Caller:
        """Returns a caller.

        Args:
            authorization: the values of all headers `Authorization`.

        Raises:
            RefusedError: too many others are not known yet, or it takes too long.
            AccessError: as `AccessControl.authenticate`.
        """
        name = _name(authorization)
        known = self._known.get(name)
        if known is not None and time.monotonic() - known[0] < KNOWN_SECONDS:
            return known[1]
        if name not in self._looked_for:  # one look is for all requests with this token
            self._looked_for[name] = asyncio.ensure_future(self._found(authorization))
            self._looked_for[name].add_done_callback(lambda _: self._looked_for.pop(name, None))
        caller = await asyncio.shield(self._looked_for[name])
        self.note(authorization, caller)
        return caller

    async def _found(self, authorization: Sequence[str]) -> Caller:
        loop, find = asyncio.get_running_loop(), self._access.authenticate
        with self._newcomers.taken():
            try:
                async with asyncio.timeout(NEWCOMER_SECONDS):
                    return await loop.run_in_executor(self._threads, find, authorization)
            except TimeoutError:
                raise RefusedError(503, "callers cannot be identified at present", head=_RETRY) from None

    def note(self, authorization: Sequence[str], caller: Caller) -> None:
        """Notes that the token of a caller is valid now."""
        name = _name(authorization)
        self._known[name] = time.monotonic(), caller
        self._known.move_to_end(name)
        while len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)

    def forget(self, authorization: Sequence[str]) -> None:
        """Notes that a token is no longer valid."""
        self._known.pop(_name(authorization), None)


def _name(authorization: Sequence[str]) -> bytes:
    return hashlib.sha256("\n".join(authorization).encode("utf-8", "surrogatepass")).digest()


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
        return 409, str(error), error.where, _RETRY
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
