"""Snapshots: a session on paper, so that another process can go on with it.

A snapshot is authenticated: whoever does not have the key can neither make one nor change it. And it never goes back:
in one process no session is restored to before what was seen of it, and a host that keeps `session.sequence` elsewhere
can ask for the same between processes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
from collections.abc import Mapping
from typing import Any, Protocol
from weakref import WeakValueDictionary

from guardagent.errors import InputError

MIN_KEY = 16  # bytes
FORMAT = 2
READ = (1, 2)  # format 1 says nothing of its own in what is authenticated
_HEAD = re.compile(rb"guardagent snapshot ([0-9]{1,9}) ([0-9a-f]{64})")
_OTHER_FORMAT = (
    "the snapshot is of format {}, and this release reads {}; restore it with the release that wrote it, "
    "or begin a new conversation"
)
_CHANGED = "this is no snapshot that was made with this key, or it was changed since"


class SnapshotSession(Protocol):
    """A session, as far as its snapshots look at it."""

    id: str

    @property
    def sequence(self) -> int: ...

    def retire(self) -> None: ...


_lock = threading.Lock()
_newest: dict[str, int] = {}  # session -> the newest state of it that was written or restored here
_alive: WeakValueDictionary[str, SnapshotSession] = WeakValueDictionary()


def write_snapshot(session: SnapshotSession, content: Mapping[str, Any], key: bytes) -> bytes:
    """A session's content, authenticated.

    Raises:
        InputError: the key is too short, or the session holds what is no JSON.
    """
    try:
        labelled = {**content, "format": FORMAT}
        body = json.dumps(labelled, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"the session cannot be written: {error}; expected JSON values in calls and facts") from None
    with _lock:
        _newest[session.id] = max(_newest.get(session.id, 0), content["sequence"])
        _alive[session.id] = session
    return b"guardagent snapshot %d %s\n%s" % (FORMAT, _mac(body, key), body)


def read_snapshot(snapshot: bytes, key: bytes, newest: int | None = None) -> dict[str, Any]:
    """What an authentic snapshot holds.

    Args:
        snapshot: what `session.snapshot` gave.
        key: the key that it was made with.
        newest: the `session.sequence` that the host has kept.

    Raises:
        InputError: it is none, it is of a format that is not read any more, or not yet, it was changed or made with
            another key, or it is older than what is known of it.
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
    """The session that was made of a snapshot goes by this name from now on.

    Raises:
        InputError: the one that went by it has gone on meanwhile.
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
        raise InputError(f"the snapshot is older than the session: it is at {sequence}, the session at {known}")


def _mac(body: bytes, key: bytes) -> bytes:
    if not isinstance(key, bytes) or len(key) < MIN_KEY:
        raise InputError(f"the key of a snapshot must be at least {MIN_KEY} random bytes")
    return hmac.new(key, body, hashlib.sha256).hexdigest().encode()
