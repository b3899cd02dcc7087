"""One event loop, in a daemon thread, in which all requests to models run.

So the sync and the async face of a model share its client, its connections and their bound; and a caller that is
cancelled or interrupted ends its request, whatever thread or event loop it waited in.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loops: list[asyncio.AbstractEventLoop] = []  # one, once it was needed


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Starts a coroutine in the background; cancelling the future cancels it."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop())


def wait(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that runs in the background; an interrupt here ends it there."""
    future = submit(coroutine)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def _loop() -> asyncio.AbstractEventLoop:
    with _lock:
        if not _loops:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="guardagent-models", daemon=True).start()
            _loops.append(loop)
        return _loops[0]


def _forget() -> None:
    """The thread did not come along into a forked child."""
    global _lock  # noqa: PLW0603 - another thread may have held it
    _lock = threading.Lock()
    _loops.clear()


os.register_at_fork(after_in_child=_forget)
