"""The HTTP interface of a server, version 1. It is served with few pauses of the garbage collector.

A full collection looks at every object of the process: the rules of a large policy and the sessions in memory alone
take 0.1 seconds and more, and the interpreter starts one whenever their number has grown by a quarter. Nearly
everything here is freed without it, by reference counts.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

from guardagent._support.http import HttpEndpoint, RequestLimits, serve
from guardagent._support.requirements import require
from guardagent.server.access import AccessControl
from guardagent.server.settings import ServerSettings

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
