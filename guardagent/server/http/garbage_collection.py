"""Keeps pauses of the garbage collector away from requests.

A full collection looks at every object of the process: the rules of a large policy and the sessions in memory alone
take 0.1 seconds and more, and the interpreter starts one whenever their number has grown by a quarter. Nearly
everything here is freed without it, by reference counts.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

SECONDS = 60.0
_NEVER = 1_000_000


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
