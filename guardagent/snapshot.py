"""Snapshots: a session on paper, so that another process can go on with it.

A snapshot is authenticated: whoever does not have the key can neither make one nor change it. And it never goes back:
in one process no session is restored to before what was seen of it, and a host that keeps `session.sequence` elsewhere
can ask for the same between processes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from guardagent.errors import InputError

if TYPE_CHECKING:
    from guardagent.session import Session

MIN_KEY = 16  # bytes
_HEAD = b"guardagent snapshot 1 "

_lock = threading.Lock()
_newest: dict[str, int] = {}  # session -> the newest state of it that was written or restored here
_alive: WeakValueDictionary[str, Session] = WeakValueDictionary()


def sealed(session: Session, content: Mapping[str, Any], key: bytes) -> bytes:
    """A session's content, authenticated.

    Raises:
        InputError: the key is too short, or the session holds what is no JSON.
    """
    try:
        body = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InputError(f"the session cannot be written: {error}; expected JSON values in calls and facts") from None
    with _lock:
        _newest[session.id] = max(_newest.get(session.id, 0), content["sequence"])
        _alive[session.id] = session
    return _HEAD + _mac(body, key) + b"\n" + body


def opened(snapshot: bytes, key: bytes, newest: int | None = None) -> dict[str, Any]:
    """What an authentic snapshot holds.

    Args:
        snapshot: what `session.snapshot` gave.
        key: the key that it was made with.
        newest: the `session.sequence` that the host has kept.

    Raises:
        InputError: it is none, it was changed or made with another key, or it is older than what is known of it.
    """
    head, _, body = snapshot.partition(b"\n")
    if not head.startswith(_HEAD) or not hmac.compare_digest(head.removeprefix(_HEAD), _mac(body, key)):
        raise InputError("this is no snapshot that was made with this key, or it was changed since")
    content: dict[str, Any] = json.loads(body)
    name, sequence = content["session"], content["sequence"]
    with _lock:
        owner = _alive.get(name)
        known = max(_newest.get(name, 0), newest or 0, owner.sequence if owner else 0)
        if sequence < known:
            raise InputError(f"the snapshot is older than the session: it is at {sequence}, the session at {known}")
        _newest[name] = sequence
    if owner is not None:
        owner.retire()
    return content


def restored(session: Session) -> None:
    """Another session goes by this name from now on."""
    with _lock:
        _alive[session.id] = session


def _mac(body: bytes, key: bytes) -> bytes:
    if not isinstance(key, bytes) or len(key) < MIN_KEY:
        raise InputError(f"the key of a snapshot must be at least {MIN_KEY} random bytes")
    return hmac.new(key, body, hashlib.sha256).hexdigest().encode()
