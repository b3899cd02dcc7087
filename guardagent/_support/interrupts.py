"""Preserves a Ctrl-C that a sandbox engine may swallow or turn into a verdict, which must not be kept."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType


@contextlib.contextmanager
def remember() -> Iterator[Callable[[], None]]:
    """Gives a function that raises KeyboardInterrupt again if one occurred. A custom handler stays in place."""
    signals: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        signal.default_int_handler(number, frame)

    def raise_if_interrupted() -> None:
        if signals:
            raise KeyboardInterrupt

    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield raise_if_interrupted
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield raise_if_interrupted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
