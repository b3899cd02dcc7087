"""A session outside of its process: snapshots, and static proofs.

A snapshot is a serialised session that another process can continue. It is authenticated: without the key nobody can
create or change one. It never goes back in time: one process never restores a session to an earlier state than it has
seen, and a host that stores `session.sequence` can require the same across processes.

By static proofs a session can skip rules that are proved for every run of a graph. This is opt-in. A proof is valid
only for the exact graph, sources and policy that it was made for.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

from guardagent._version import __version__
from guardagent.errors import InputError
from guardagent.policy.policies import Policies

if TYPE_CHECKING:
    from guardagent.session.calls import CallHistory

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


_lock = threading.Lock()
_newest: dict[str, int] = {}  # session id -> the newest sequence number that was written or restored here
_alive: WeakValueDictionary[str, CallHistory] = WeakValueDictionary()


def write_snapshot(history: CallHistory, content: Mapping[str, Any], key: bytes) -> bytes:
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
        _newest[history.session] = max(_newest.get(history.session, 0), content["sequence"])
        _alive[history.session] = history
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
    match = _HEAD.fullmatch(head)
    if match and int(match[1]) not in READ:
        raise InputError(_OTHER_FORMAT.format(int(match[1]), " and ".join(map(str, READ))))
    if not match or not hmac.compare_digest(match[2], _mac(body, key)):
        raise InputError(_CHANGED)
    content: dict[str, Any] = json.loads(body)
    if content.get("format", 1) != int(match[1]):
        raise InputError(_CHANGED)
    with _lock:
        _require_newest(content, newest or 0)
    return content


def take_over(history: CallHistory, content: Mapping[str, Any]) -> None:
    """Registers a restored session under its id and retires the previous owner.

    Raises:
        InputError: the previous owner has gone on since the snapshot.
    """
    with _lock:
        _require_newest(content)
        _newest[history.session] = content["sequence"]
        owner = _alive.get(history.session)
        _alive[history.session] = history
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
