"""Everything that a server does, without HTTP: see `GuardService`.

Here are a request of a known caller, its errors, work that is repeated, and the answers to requests that are repeated
with an idempotency key. These are stored, so that every server knows them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.enforcement.wire import WireError
from guardagent.errors import InputError, error_text
from guardagent.server.access import EVERY_TENANT, Caller
from guardagent.server.state import NewItem, StateStore, StoredItem

MAX_LIMIT = 500

# --- errors


class UnknownItemError(InputError):
    """It does not exist for this caller. Another tenant's looks the same as one that does not exist."""


class RequestConflictError(InputError):
    """The request contradicts what has happened."""


class RepeatedKeyError(InputError):
    """The idempotency key belongs to another request."""


class RequestRunningError(RequestConflictError):
    """The same is still running, perhaps on a server that is gone; to be sent again in a second.

    Attributes:
        where: the part of the request that says what is the same.
    """

    def __init__(self, problem: str, where: str = "") -> None:
        super().__init__(problem)
        self.where = where


# --- work that is repeated

_log = logging.getLogger("guardagent")


@contextlib.contextmanager
def repeated(name: str, pause: float, work: Callable[[Callable[[], bool]], object]) -> Iterator[None]:
    """Works again and again in a thread meanwhile, whatever fails.

    Args:
        name: what it does, for messages.
        pause: the seconds before each time.
        work: does it, and gets a function that tells whether it is to stop.
    """
    stopped = threading.Event()

    def run() -> None:
        while not stopped.wait(pause):
            try:
                work(stopped.is_set)
            except Exception as error:  # noqa: BLE001 - the next round tries again
                _log.error("%s is not possible at present: %s", name, error_text(error))

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(10.0)


# --- a request


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request of a known caller.

    Attributes:
        caller: who sends it.
        body: its JSON value; an empty mapping without one.
        key: its idempotency key; None if it has none.
        path: the parts of the address.
        query: the options of the address.
        server: the application, with its metrics and its document.
    """

    caller: Caller
    body: Any
    key: str | None
    path: Mapping[str, str]
    query: Mapping[str, str]
    server: Any

    def identity(self) -> str:
        """A value that only a repetition of this request has."""
        if self.key is None:
            return secrets.token_hex(16)
        return _digest([self.caller.id, self.key, self.body])

    @property
    def tenant(self) -> str:
        """The tenant that a reader's request concerns: the caller's own, unless an admin of all names one.

        Raises:
            WireError: the admin names none.
            UnknownItemError: the caller names another tenant.
        """
        named = self.query.get("tenant")
        if named is None and self.caller.tenant == EVERY_TENANT:
            raise WireError("tenant", "is missing; an admin of all tenants names one, such as '?tenant=shop'")
        if named is not None and not self.caller.can_see(named):
            raise UnknownItemError("there is no such tenant")
        return self.caller.tenant if named is None else named

    def number(self, name: str, expected: str = "a whole number from 0 on") -> int | None:
        """Returns an option that is a whole number; None if it is missing.

        Raises:
            WireError: it is something else than is expected.
        """
        text = self.query.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) <= 18):
            raise WireError(name, f"is {text[:40]!r}; expected {expected}")
        return int(text)

    def choice(self, name: str, choices: Collection[str]) -> str | None:
        """Returns an option that is one of some words; None if it is missing.

        Raises:
            WireError: it is something else.
        """
        text = self.query.get(name)
        if text is not None and text not in choices:
            raise WireError(name, f"is {text[:40]!r}; expected {', '.join(choices)}")
        return text

    @property
    def limit(self) -> int:
        """The option `limit`.

        Raises:
            WireError: it is not between 1 and 500.
        """
        expected = f"1 to {MAX_LIMIT}"
        number = self.number("limit", expected)
        if number is not None and not 0 < number <= MAX_LIMIT:
            raise WireError("limit", f"is {number}; expected {expected}")
        return 50 if number is None else number


# --- answers to repeated requests

ANSWER = "answer"
RUNNING_SECONDS = 20.0  # after which a server that has not answered counts as gone


class RepeatedRequests:
    """Keeps the answers to requests with keys.

    Args:
        state: stores them.
    """

    def __init__(self, state: StateStore, clock: Callable[[], float] = time.time) -> None:
        self._state, self._clock = state, clock

    def once(
        self,
        tenant: str,
        caller: str,
        key: str | None,
        request: Any,
        run: Callable[[], Any],
        *,
        takes_over: bool = False,
    ) -> Any:
        """Runs a request, unless it has run; returns its answer.

        Args:
            tenant: the tenant of the caller.
            caller: the id of the caller, whose keys are its own.
            key: the key; without one, the request runs.
            request: its address and its body.
            run: runs it.
            takes_over: whether it runs although the first one may be running, since twice does the same as once.

        Raises:
            RepeatedKeyError: another request had this key.
            RequestRunningError: the first one is running.
        """
        if key is None:
            return run()
        (_, name, begun), version = self.item(caller, key, request, None), 1
        digest, now = begun["request"], begun["since"]
        if not self._state.add(ANSWER, tenant, name, begun):
            state_value = self._state.get(ANSWER, tenant, name)
            if state_value is not None:
                if (answer := self._earlier(state_value, digest, math.inf if takes_over else now)) is not None:
                    return answer
                if not self._state.replace(ANSWER, tenant, name, state_value.version, begun):
                    raise _running()
                version = state_value.version + 1
        try:
            answer = run()
        except BaseException:
            if self._state.versions(ANSWER, tenant, (name,)).get(name) == version:  # else another server took over
                self._state.delete(ANSWER, tenant, name)  # it did nothing, and may be sent again
            raise
        self._state.replace(ANSWER, tenant, name, version, {**begun, "answer": answer})
        return answer

    def item(self, caller: str, key: str, request: Any, answer: Any) -> NewItem:
        """Returns an answer as it is stored, for a request that stores it in one step with what it does."""
        return ANSWER, _digest([caller, key]), {"request": _digest(request), "since": self._clock(), "answer": answer}

    def _earlier(self, stored_item: StoredItem, digest: str, now: float) -> Any:
        """The answer of an earlier request; None if its server is gone."""
        if stored_item.value["request"] != digest:
            raise RepeatedKeyError("another request had this key; expected a new key for each request")
        if stored_item.value["answer"] is None and now - stored_item.value["since"] < RUNNING_SECONDS:
            raise _running()
        return stored_item.value["answer"]


def _running() -> RequestRunningError:
    problem = "the first request with this key is running; send it again in a second"
    return RequestRunningError(problem, "Idempotency-Key")


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
