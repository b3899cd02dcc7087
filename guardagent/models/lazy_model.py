"""A model that loads at its first use, for a guard whose program rarely needs one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from guardagent.errors import InputError, UnsentError
from guardagent.models import Model


class LazyModel:
    """A proxy for the model that `load` returns.

    Raises:
        UnsentError: the model cannot be loaded, so no request was sent.
    """

    def __init__(self, load: Callable[[], Model]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._loaded: Model | None = None

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if self._loaded is None:
                try:
                    self._loaded = self._load()
                except InputError as error:
                    raise UnsentError(str(error)) from None
        return getattr(self._loaded, name)

    def close(self) -> None:
        """Closes the model, if it was loaded and can be closed."""
        close = getattr(self._loaded, "close", None)
        if close is not None:
            close()
