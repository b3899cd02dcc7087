"""Worker processes that accept connections at one socket: `guardagent serve --workers N`.

Beside the socket they share the state alone, as servers on several machines do.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import connection, get_context, parent_process
from multiprocessing.process import BaseProcess

from guardagent._support.http import HttpEndpoint, RequestLimits, listening_socket
from guardagent.errors import GuardError

PAUSE_SECONDS = 10.0  # between two starts in one place, so that a worker that cannot start is no endless load
_LAST_SECONDS = 5.0  # for workers to end
_SPAWN = get_context("spawn")
_log = logging.getLogger("guardagent")

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
