"""A ledger on a Redis server that several machines share.

conversation:NAME   hash: the place of the last entry, and the policy unless it has ended
history:NAME        stream: the entries, by place; the end of a conversation has none
proposed:NAME       set: the ids of its calls
requests:NAME       hash: digest of a call -> approval request
used                hash: digest of a call whose approval was used
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from guardagent._support.redis import Check, Command, RedisServer
from guardagent._support.stores import StoreBusyError, StoreFormat
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.ledger.history import (
    REJECTED,
    USED,
    ConversationJournal,
    RecordedRequest,
    refused_place,
    stored_name,
)
from guardagent.enforcement.ledger.staging import HistoryChange, Provided
from guardagent.errors import InputError, LedgerError

MAX_TRIES = 50  # while other processes write approvals of the same call, or entries of the same conversation
_FORMAT = StoreFormat(
    "ledger",
    1,
    "continue with the release that created it, or choose another prefix: then old approvals are void",
    LedgerError,
    "guardagent_ledger",
)


class RedisLedger:
    """A `Ledger` on a Redis server. Its address is `redis://user:password@host/0`, or `rediss://…` with TLS.

    An entry is added by one script, which only succeeds at the next place of its conversation, so a process that was
    stopped or cut off adds nothing late.

    Args:
        rest: the address after the scheme's colon.
        scheme: the scheme.

    Raises:
        InputError: as `RedisServer`.
    """

    def __init__(self, rest: str, scheme: str = "redis") -> None:
        self._server = RedisServer(scheme, rest, _FORMAT)
        self.name = self._server.name
        self._used = self._server.key("used")

    def close(self) -> None:
        """Closes all connections; the next use opens new ones."""
        self._server.close()

    # --- approvals

    def record_request(self, call: HostCall, rules: Sequence[str], edited: HostCall | None = None) -> None:
        for _ in range(MAX_TRIES):
            root = self._root(edited or call)
            self._require_unused(call.digest, root)
            if self._put(call, RecordedRequest(tuple(rules), root)):
                return
        raise _contended(call)

    def recorded_request(self, call: HostCall) -> RecordedRequest | None:
        request = _request(self._request_text(call))
        self._require_unused(call.digest, request.root if request else call.digest)
        return request

    def reject(self, call: HostCall) -> None:
        self._put(call, RecordedRequest((), self._root(call), rejected=True), even_if_used=True)

    def use(self, call: HostCall) -> None:
        for _ in range(MAX_TRIES):
            text = self._request_text(call)
            request = _request(text)
            used = sorted({call.digest, request.root if request else call.digest})
            self._require_unused(*used)
            if request is not None and request.rejected:
                raise InputError(REJECTED)
            checks = [(self._requests(call), call.digest, text), *((self._used, digest, None) for digest in used)]
            if not self._server.commit(checks, [("HSET", self._used, digest, "1") for digest in used]):
                return
        raise _contended(call)

    # --- conversations

    def end(self, conversation: str) -> None:
        name = stored_name(conversation)
        head, history = self._server.key("conversation", name), self._server.key("history", name)
        for _ in range(MAX_TRIES):
            (last,) = self._server.read(("HGET", head, "last"))
            place = int(last or 0) + 1
            mark: list[Command] = [  # so that other processes see the end; what needs memory comes first
                ("HSET", head, "last", place),
                ("XADD", history, f"{place}-0", "end", "1"),
                ("HDEL", head, "policy"),
                ("XTRIM", history, "MAXLEN", "1"),
            ]
            rest = ("DEL", self._server.key("requests", name), self._server.key("proposed", name))
            if not self._server.commit([(head, "last", last)], [*(mark if last else ()), rest]):
                return
        raise LedgerError(f"other processes kept adding to conversation {conversation!r}; it was not ended: try again")

    def journal(self, conversation: str, policy: str) -> ConversationJournal:
        return ConversationJournal(self, conversation, policy)

    def policy_of(self, conversation: str) -> str | None:
        """Returns the digest of the policy under which a conversation runs; None if it has not begun."""
        (version,) = self._server.read(("HGET", self._server.key("conversation", stored_name(conversation)), "policy"))
        return None if version is None else str(version)

    def entries(self, conversation: str, after: int) -> list[tuple[int, str, str | None]]:
        (entries,) = self._server.read(
            ("XRANGE", self._server.key("history", stored_name(conversation)), after + 1, "+")
        )
        return [(_place(at), fields.get("policy", ""), fields.get("entry")) for at, fields in entries]

    def append(self, conversation: str, place: int, policy: str, entry: str, call_id: str | None) -> None:
        change = HistoryChange(conversation, place - 1, [(place, policy, entry, call_id)])
        if not self.commit([change]):
            return
        name = stored_name(conversation)
        head, history = self._server.key("conversation", name), self._server.key("history", name)
        last, there = self._server.read(("HGET", head, "last"), ("XRANGE", history, place, place))
        if not there or there[0][1].get("entry") != entry:  # else it was added, and the answer was lost
            raise refused_place(conversation, place, int(last or 0))

    def commit(
        self, changes: Sequence[HistoryChange], *, seconds: float | None = None, provided: Provided | None = None
    ) -> set[str]:
        if seconds is not None:
            raise StoreBusyError("the store is on a server")
        refused, left = set(), {change.conversation: change for change in changes}
        while left:
            checks, writes = list[Check](), list[Command]()
            if provided is not None:
                head = self._server.key("conversation", stored_name(provided[0]))
                checks.append((head, "last", str(provided[1]) if provided[1] else None))
            for change in left.values():
                name = stored_name(change.conversation)
                head, history = self._server.key("conversation", name), self._server.key("history", name)
                checks.append((head, "last", str(change.after) if change.after else None))
                for place, policy, entry, _ in change.rows:
                    writes.append(("HSET", head, "last", place, "policy", policy))
                    writes.append(("XADD", history, f"{place}-0", "policy", policy, "entry", entry))
                if ids := [stored_name(call_id) for call_id in change.proposed]:
                    writes.append(("SADD", self._server.key("proposed", name), *ids))
            failed = self._server.commit_again(checks, writes)
            if not failed:
                break
            if provided is not None:
                failed -= 1
                if not failed:
                    return {change.conversation for change in changes}
            refused.add([*left][failed - 1])
            del left[[*left][failed - 1]]
        return refused

    def add_call_id(self, conversation: str, call_id: str) -> None:
        key = self._server.key("proposed", stored_name(conversation))
        self._server.commit([], [("SADD", key, stored_name(call_id))])

    def has_call_id(self, conversation: str, call_id: str) -> bool:
        key = self._server.key("proposed", stored_name(conversation))
        return bool(self._server.read(("SISMEMBER", key, stored_name(call_id)))[0])

    # --- keys

    def _requests(self, call: HostCall) -> str:
        return self._server.key("requests", stored_name(str(call.conversation)))

    def _request_text(self, call: HostCall) -> str | None:
        return self._server.read(("HGET", self._requests(call), call.digest))[0]  # type: ignore[no-any-return]

    def _root(self, call: HostCall) -> str:
        request = _request(self._request_text(call))
        return request.root if request else call.digest

    def _put(self, call: HostCall, recorded_request: RecordedRequest, *, even_if_used: bool = False) -> bool:
        text = json.dumps([recorded_request.rules, recorded_request.root, recorded_request.rejected])
        checks = [] if even_if_used else [(self._used, digest, None) for digest in {call.digest, recorded_request.root}]
        return not self._server.commit(checks, [("HSET", self._requests(call), call.digest, text)])

    def _require_unused(self, *digests: str) -> None:
        if any(self._server.read(*(("HGET", self._used, digest) for digest in digests))):
            raise InputError(USED)


open_with_tls = partial(RedisLedger, scheme="rediss")


def _request(text: str | None) -> RecordedRequest | None:
    if text is None:
        return None
    rules, root, rejected = json.loads(text)
    return RecordedRequest(tuple(rules), root, rejected)


def _place(at: str) -> int:
    return int(at.partition("-")[0])


def _contended(call: HostCall) -> LedgerError:
    return LedgerError(f"other processes kept answering the call of {call.tool!r}; nothing was recorded: try again")
