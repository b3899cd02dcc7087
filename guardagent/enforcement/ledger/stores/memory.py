"""A ledger in memory, for one guard in one process."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence

from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.ledger.protocol import REJECTED, USED, RecordedRequest
from guardagent.errors import InputError


class MemoryLedger:
    """A `Ledger` that ends with the process. Its address is `memory:`; `memory:NAME` is another one.

    Args:
        label: distinguishes the addresses.
    """

    def __init__(self, label: str = "") -> None:
        self.label = label
        self.name = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._requests: dict[str, dict[str, RecordedRequest]] = {}  # conversation -> digest -> request
        self._used: set[str] = set()

    def record_request(self, call: HostCall, rules: Sequence[str], edited: HostCall | None = None) -> None:
        with self._lock:
            root = self._root(edited or call)
            self._require_unused(call.digest, root)
            self._of(call)[call.digest] = RecordedRequest(tuple(rules), root)

    def recorded_request(self, call: HostCall) -> RecordedRequest | None:
        with self._lock:
            self._require_unused(call.digest, self._root(call))
            return self._of(call).get(call.digest)

    def reject(self, call: HostCall) -> None:
        with self._lock:
            self._of(call)[call.digest] = RecordedRequest((), self._root(call), rejected=True)

    def use(self, call: HostCall) -> None:
        with self._lock:
            root, question = self._root(call), self._of(call).get(call.digest)
            self._require_unused(call.digest, root)
            if question is not None and question.rejected:
                raise InputError(REJECTED)
            self._of(call).pop(call.digest, None)
            self._used |= {call.digest, root}

    def end(self, conversation: str) -> None:
        with self._lock:
            self._requests.pop(conversation, None)

    def journal(self, conversation: str, policy: str) -> None:
        """Returns None: no other process continues its conversations."""

    def _of(self, call: HostCall) -> dict[str, RecordedRequest]:
        return self._requests.setdefault(str(call.conversation), {})

    def _root(self, call: HostCall) -> str:
        question = self._of(call).get(call.digest)
        return question.root if question is not None else call.digest

    def _require_unused(self, *digests: str) -> None:
        if not self._used.isdisjoint(digests):
            raise InputError(USED)
