"""Answers to requests that are repeated with the same idempotency key, on any server."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from typing import Any

from guardagent.server.service.errors import RepeatedKeyError, RequestRunningError
from guardagent.server.state import StateStore, StoredItem

ANSWER = "answer"
RUNNING_SECONDS = 20.0  # after which a server that has not answered counts as gone


class RepeatedRequests:
    """Keeps the answers to requests with keys.

    Args:
        state: stores them.
    """

    def __init__(self, state: StateStore, clock: Callable[[], float] = time.time) -> None:
        self._state, self._clock = state, clock

    def once(self, tenant: str, caller: str, key: str | None, request: Any, run: Callable[[], Any]) -> Any:
        """Runs a request, unless it has run; returns its answer.

        Args:
            tenant: the tenant of the caller.
            caller: the id of the caller, whose keys are its own.
            key: the key; without one, the request runs.
            request: its address and its body.
            run: runs it.

        Raises:
            RepeatedKeyError: another request had this key.
            RequestRunningError: the first one is running.
        """
        if key is None:
            return run()
        name = _digest([caller, key])
        digest, now = _digest(request), self._clock()
        begun = {"request": digest, "since": now, "answer": None}
        if not self._state.add(ANSWER, tenant, name, begun):
            found = self._state.get(ANSWER, tenant, name)
            if found is not None:
                if (answer := self._earlier(found, digest, now)) is not None:
                    return answer
                if not self._state.replace(ANSWER, tenant, name, found.version, begun):
                    raise _running()
        return self._run(tenant, name, begun, run)

    def _earlier(self, found: StoredItem, digest: str, now: float) -> Any:
        """The answer of an earlier request; None if its server is gone."""
        if found.value["request"] != digest:
            raise RepeatedKeyError("another request had this key; expected a new key for each request")
        if found.value["answer"] is None and now - found.value["since"] < RUNNING_SECONDS:
            raise _running()
        return found.value["answer"]

    def _run(self, tenant: str, name: str, begun: dict[str, Any], run: Callable[[], Any]) -> Any:
        try:
            answer = run()
        except BaseException:
            self._state.delete(ANSWER, tenant, name)  # it did nothing, and may be sent again
            raise
        item = self._state.get(ANSWER, tenant, name)
        if item is not None:
            self._state.replace(ANSWER, tenant, name, item.version, {**begun, "answer": answer})
        return answer


def _running() -> RequestRunningError:
    return RequestRunningError("the first request with this key is running; send it again in a second")


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
