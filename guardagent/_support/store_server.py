"""A server that keeps a store: its errors, and the time that its users wait for it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from guardagent._support.store_address import StoreAddress
from guardagent.errors import GuardError

SECONDS = 5.0  # for a connection, and for each answer
PAUSE = 1.0  # after an answer that did not come, nobody else waits for the server
CONNECTIONS = 16  # of one process


class StoreServer:
    """A server that keeps a store.

    Args:
        address: its address.
        kind: the kind of store, for messages.
        error_type: the error of a store that cannot be used.
        library_errors: the errors of the client library.
    """

    def __init__(
        self,
        address: StoreAddress,
        kind: str,
        error_type: type[GuardError],
        library_errors: tuple[type[Exception], ...],
    ) -> None:
        self.address, self.error_type = address, error_type
        self._name = kind
        self._library_errors: tuple[type[Exception], ...] = (*library_errors, OSError, UnicodeError)
        self._resumes = 0.0

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turns errors of the library into those of the store. While the server hangs, one user at a time waits."""
        started = time.monotonic()
        if started < self._resumes:
            raise self.failure("the server did not answer a moment ago")
        try:
            yield
        except self._library_errors as error:
            if time.monotonic() - started > 0.9 * SECONDS:
                self._resumes = time.monotonic() + PAUSE
            raise self.failure(self.reason(error)) from error

    def failure(self, reason: str) -> GuardError:
        """Returns the error of a store that cannot be used."""
        return self.error_type(f"{self.address.shown}: the {self._name} cannot be used: {reason}")

    def reason(self, error: BaseException) -> str:
        """Returns the message of an error of the library, without passwords."""
        return self.address.without_secrets(error)
