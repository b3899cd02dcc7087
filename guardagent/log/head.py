"""The head of a log: its number of entries and its last hash. Kept in another place, it reveals a truncated log.

{"guardagent_log_head": 1, "count": 42, "digest": "sha256:…", "mac": null}
"""

from __future__ import annotations

import hmac
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from guardagent._support.files import folder_lock, parse_json, read_text, replace_file
from guardagent.errors import ContentError, InputError, LogError
from guardagent.log.chain import FIRST, Chain, Entry

_VERSION = 1
_MAX_HEAD_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a log.

    Attributes:
        count: the number of entries.
        digest: the hash of the last one.
        mac: authenticates both, if the log has a key.
    """

    count: int
    digest: str
    mac: str | None = None

    @classmethod
    def after(cls, last: Entry | None, chain: Chain) -> Head:
        """Returns the head of a log that ends with an entry."""
        count, digest = (last.seq, last.hash) if last is not None else (0, FIRST)
        return cls(count, digest, chain.head_hash(count, digest) if chain.keyed else None)

    @classmethod
    def load(cls, path: Path | str) -> Head:
        """Reads the head from a file.

        Raises:
            InputError: it is missing, or not a head.
        """
        return _parse_head(parse_json(read_text(path, limit=_MAX_HEAD_BYTES), path), path)

    def to_dict(self) -> dict[str, Any]:
        return {"guardagent_log_head": _VERSION, **asdict(self)}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    def mac_problem(self, chain: Chain) -> str | None:
        """Returns the problem with the head by itself; None if it is intact, or cannot be checked without the key."""
        if not chain.keyed:
            return None
        if self.mac is None:
            return "the head was written without the key"
        if hmac.compare_digest(self.mac.encode(), chain.head_hash(self.count, self.digest).encode()):
            return None
        return "the head was changed, or written with another key"


class HeadFile:
    """Keeps the head of a log in a file, which may be on another volume."""

    def __init__(self, path: Path, chain: Chain) -> None:
        self._path = path
        self._chain = chain

    def read(self) -> Head | None:
        """Returns the stored head; None if there is none yet.

        Raises:
            LogError: it is not a head, or has another key.
        """
        if not self._path.exists():
            return None
        try:
            head = Head.load(self._path)
        except InputError as error:
            raise LogError(f"the head cannot be read: {error}") from None
        if forged := head.mac_problem(self._chain):
            raise LogError(f"{self._path}: {forged}")
        return head

    def update(self, head: Head) -> None:
        """Stores a head, unless another process has stored a later one.

        Raises:
            LogError: it cannot be written, or is another log's.
        """
        try:
            with folder_lock(self._path.parent):
                stored = self.read()
                if stored is None or stored.count < head.count:
                    replace_file(self._path, f"{head.to_json()}\n")
                elif stored.count == head.count:
                    self.require_not_shorter(stored, head)
        except OSError as error:
            raise LogError(f"{self._path}: the head cannot be written: {error.strerror}") from None
        except InputError as error:
            raise LogError(f"the head cannot be written: {error}") from None

    def require_not_shorter(self, stored: Head, current: Head) -> None:
        """Makes sure that a log is no shorter than its stored head.

        Raises:
            LogError: it is, or it is another log.
        """
        if stored.count > current.count:
            raise LogError(
                f"{self._path}: records {stored.count:,} entries, but the log has {current.count:,}: some were removed"
            )
        if stored.count == current.count and stored.digest != current.digest:
            raise LogError(f"{self._path}: is the head of another log, or entry {current.count} was changed")


def _parse_head(value: Any, path: Path | str) -> Head:
    if not isinstance(value, dict) or value.keys() != {"guardagent_log_head", "count", "digest", "mac"}:
        raise ContentError("is not the head of a log; expected one from 'AuditLog' or 'guardagent log verify'", path)
    version, count, digest, mac = (value[key] for key in ("guardagent_log_head", "count", "digest", "mac"))
    if version != _VERSION:
        raise ContentError(f"has version {version!r}; expected version {_VERSION}", path)
    if type(count) is not int or count < 0 or type(digest) is not str or not isinstance(mac, str | None):
        raise ContentError("is not the head of a log; expected 'count', 'digest' and 'mac'", path)
    return Head(count, digest, mac)
