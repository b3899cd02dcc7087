"""A session outside of its process: snapshots, static proofs, the shared history, and verdicts for users.

A snapshot is a serialised session that another process can continue. It is authenticated: without the key nobody can
create or change one. It never goes back in time: one process never restores a session to an earlier state than it has
seen, and a host that stores `session.sequence` can require the same across processes.

By static proofs a session can skip rules that are proved for every run of a graph. This is opt-in. A proof is valid
only for the exact graph, sources and policy that it was made for.

Through the shared history other processes continue a session, concurrently or after a restart. The verdict on a
withheld answer reaches the user without any part of the answer.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakValueDictionary

from guardagent._version import __version__
from guardagent.errors import GuardError, InputError
from guardagent.policy.policies import Policies
from guardagent.types import Denial, Verdict, Violation

MIN_KEY = 16  # bytes
FORMAT = 2
READ = (1, 2)  # format 1 does not contain its own number
_HEAD = re.compile(rb"guardagent snapshot ([0-9]{1,9}) ([0-9a-f]{64})")
_OTHER_FORMAT = (
    "the snapshot has format {}, but this release reads {}; restore it with the release that wrote it, "
    "or start a new conversation"
)
_CHANGED = (
    "not a snapshot made with this key, or changed since; expected the unchanged result of 'session.snapshot(key)'"
)


class SnapshotSession(Protocol):
    """The parts of a session that snapshots use."""

    id: str

    @property
    def sequence(self) -> int: ...

    def retire(self) -> None: ...


_lock = threading.Lock()
_newest: dict[str, int] = {}  # session id -> the newest sequence number that was written or restored here
_alive: WeakValueDictionary[str, SnapshotSession] = WeakValueDictionary()


def write_snapshot(session: SnapshotSession, content: Mapping[str, Any], key: bytes) -> bytes:
    """Serialises and authenticates the content of a session.

    Raises:
        InputError: the key is too short, or a value cannot be written as JSON.
    """
    try:
        labelled = {**content, "format": FORMAT}
        body = json.dumps(labelled, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"the session cannot be saved: {error}; expected JSON values in calls and facts") from None
    with _lock:
        _newest[session.id] = max(_newest.get(session.id, 0), content["sequence"])
        _alive[session.id] = session
    return b"guardagent snapshot %d %s\n%s" % (FORMAT, _mac(body, key), body)


def read_snapshot(snapshot: bytes, key: bytes, newest: int | None = None) -> dict[str, Any]:
    """The content of an authentic snapshot.

    Args:
        snapshot: the result of `session.snapshot`.
        key: the key of the snapshot.
        newest: the last `session.sequence` that the host knows.

    Raises:
        InputError: the snapshot is invalid, changed, outdated, made with another key, or has an unsupported format.
    """
    head, _, body = snapshot.partition(b"\n")
    found = _HEAD.fullmatch(head)
    if found and int(found[1]) not in READ:
        raise InputError(_OTHER_FORMAT.format(int(found[1]), " and ".join(map(str, READ))))
    if not found or not hmac.compare_digest(found[2], _mac(body, key)):
        raise InputError(_CHANGED)
    content: dict[str, Any] = json.loads(body)
    if content.get("format", 1) != int(found[1]):
        raise InputError(_CHANGED)
    with _lock:
        _require_newest(content, newest or 0)
    return content


def take_over(session: SnapshotSession, content: Mapping[str, Any]) -> None:
    """Registers a restored session under its id and retires the previous owner.

    Raises:
        InputError: the previous owner has gone on since the snapshot.
    """
    with _lock:
        _require_newest(content)
        _newest[session.id] = content["sequence"]
        owner = _alive.get(session.id)
        _alive[session.id] = session
    if owner is not None:
        owner.retire()


def _require_newest(content: Mapping[str, Any], newest: int = 0) -> None:
    name, sequence = content["session"], content["sequence"]
    owner = _alive.get(name)
    known = max(_newest.get(name, 0), newest, owner.sequence if owner else 0)
    if sequence < known:
        raise InputError(
            f"the snapshot is outdated: its sequence number is {sequence}, but the session has reached {known}"
        )


def _mac(body: bytes, key: bytes) -> bytes:
    if not isinstance(key, bytes) or len(key) < MIN_KEY:
        raise InputError(f"the key of a snapshot is invalid; expected at least {MIN_KEY} random bytes")
    return hmac.new(key, body, hashlib.sha256).hexdigest().encode()


# --- static proofs


class AgentNode(Protocol):
    """The parts of a graph node that a session reads."""

    @property
    def tools(self) -> Sequence[str]: ...
    @property
    def metadata(self) -> Mapping[str, Any]: ...


class AgentGraph(Protocol):
    """The parts of an agent's graph that a session reads: see `guardagent.Graph`."""

    @property
    def framework(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def nodes(self) -> Sequence[AgentNode]: ...


@dataclass(frozen=True, slots=True)
class Proofs:
    """The rules that are proved for every run.

    Attributes:
        digest: a hash of the graph, the sources of its nodes, the policy and this version.
        rules: the ids of the proved rules.
        obstacle: the reason if nothing could be proved.
    """

    digest: str
    rules: frozenset[str]
    obstacle: str = ""

    def hold_for(self, graph: AgentGraph, policies: Policies) -> bool:
        """Whether the proofs are valid for this graph and policy in their current form."""
        return self.digest == digest_of(graph, policies)


def digest_of(graph: AgentGraph, policies: Policies) -> str:
    """The hash of everything that a proof depends on."""
    content = hashlib.sha256()
    for part in (__version__, graph.framework, graph.digest, policies.digest):
        content.update(f"{len(part)}:{part}".encode())
    files = {node.metadata["file"] for node in graph.nodes if isinstance(node.metadata.get("file"), str)}
    for file in sorted(files):
        path = Path(file)
        content.update(path.read_bytes() if path.is_file() else b"missing")
    return content.hexdigest()


# --- the shared history


HistoryEntry = Mapping[str, Any]
"""A change as JSON: `placed` (a call), `settled` (the place of a call), `barred` (a call's id) or `halted`."""


class HistoryChangedError(GuardError):
    """Another process extended the history, so the decision was made on an outdated one."""


class SessionEndedError(GuardError):
    """Another process ended the conversation; a new one may have the same name."""


class Journal(Protocol):
    """The history of one session, as seen by one of the processes that share it."""

    def news(self) -> Sequence[HistoryEntry]:
        """Returns the entries that other processes added since the last call.

        Raises:
            SessionEndedError: another process ended the conversation.
            InputError: the other processes use another policy.
        """

    def append(self, entry: HistoryEntry) -> None:
        """Appends an entry before the change takes effect.

        Raises:
            HistoryChangedError: there are new entries of other processes.
            InputError: the entry cannot be written as JSON.
        """


_WITHOUT_MESSAGE = "the rule forbids this answer"


def without_answer_text(policies: Policies, verdict: Verdict) -> Verdict:
    """Returns a denial with the messages of the rules' authors; causes and evidence can quote the answer."""
    if not verdict.label:
        return verdict
    messages = {rule.id: rule.source.message_line or _WITHOUT_MESSAGE for rule in policies.rules}
    violations = tuple(
        Violation(one.policy, messages.get(one.policy, _WITHOUT_MESSAGE), remedy=one.remedy)
        for one in verdict.violations
    )
    rules = dict.fromkeys(error.partition(": ")[0] for error in verdict.errors)
    errors = tuple(f"{rule if rule in messages else 'the answer'}: could not be checked" for rule in rules)
    reasons = (*[one.message for one in violations], *errors)
    return replace(verdict, reasons=reasons, violations=violations, errors=errors, details={}, denial=Denial())
