"""The head of a log: how many entries it has, and the hash of the last one. Kept elsewhere, it shows what was cut off.

{"guardagent_log_head": 1, "count": 42, "digest": "sha256:…", "mac": null}
"""

from __future__ import annotations

import hmac
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from guardagent._support.files import parse_json, read_text
from guardagent._support.locks import folder_lock, replace_file
from guardagent.errors import ContentError, InputError, LogError
from guardagent.log.chain import FIRST, Chain, Entry

_VERSION = 1
_MAX_BYTES = 10_000


@dataclass(frozen=True, slots=True)
class Head:
    """Where a log ends.

    Attributes:
        count: how many entries it has.
        digest: the hash of the last of them.
        mac: authenticates both, where the log has a key.
    """

    count: int
    digest: str
    mac: str | None = None

    @classmethod
    def after(cls, last: Entry | None, chain: Chain) -> Head:
        """The head of a log that ends with an entry."""
        count, digest = (last.seq, last.hash) if last is not None else (0, FIRST)
        return cls(count, digest, chain.head_hash(count, digest) if chain.keyed else None)

    @classmethod
    def load(cls, path: Path | str) -> Head:
        """The head in a file.

        Raises:
            InputError: it is missing, or no head.
        """
        return _parse_head(parse_json(read_text(path, limit=_MAX_BYTES), path), path)

    def to_dict(self) -> dict[str, Any]:
        return {"guardagent_log_head": _VERSION, **asdict(self)}

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    def mac_problem(self, chain: Chain) -> str | None:
        """What is wrong with it by itself; None where nothing is. Without the key, that cannot be known."""
        if not chain.keyed:
            return None
        if self.mac is None:
            return "the head was made without the key"
        if hmac.compare_digest(self.mac.encode(), chain.head_hash(self.count, self.digest).encode()):
            return None
        return "the head was changed, or made with another key"


class HeadFile:
    """Keeps the head of a log in a file, which may lie on another volume."""

    def __init__(self, path: Path, chain: Chain) -> None:
        self._path = path
        self._chain = chain

    def read(self) -> Head | None:
        """What was written down last; None where nothing was yet.

        Raises:
            LogError: it is no head, or not of this key.
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
        """Writes it down, unless another process has written down a later one.

        Raises:
            LogError: it cannot be written, or is another log's.
        """
        try:
            with folder_lock(self._path.parent):
                known = self.read()
                if known is None or known.count < head.count:
                    replace_file(self._path, f"{head.to_json()}\n")
                elif known.count == head.count:
                    self.require_not_shorter(known, head)
        except OSError as error:
            raise LogError(f"{self._path}: the head cannot be written: {error.strerror}") from None
        except InputError as error:
            raise LogError(f"the head cannot be written: {error}") from None

    def require_not_shorter(self, known: Head, now: Head) -> None:
        """Makes sure that a log is no shorter than was written down.

        Raises:
            LogError: it is, or it is another log.
        """
        if known.count > now.count:
            raise LogError(f"{self._path}: knows {known.count:,} entries, and the log has {now.count:,}: some were cut")
        if known.count == now.count and known.digest != now.digest:
            raise LogError(f"{self._path}: is the head of another log, or entry {now.count} was changed")


def _parse_head(value: Any, path: Path | str) -> Head:
    if not isinstance(value, dict) or value.keys() != {"guardagent_log_head", "count", "digest", "mac"}:
        raise ContentError("is no head of a log; expected what `AuditLog` or `guardagent log verify` gives", path)
    version, count, digest, mac = (value[key] for key in ("guardagent_log_head", "count", "digest", "mac"))
    if version != _VERSION:
        raise ContentError(f"is of version {version!r}; expected version {_VERSION}", path)
    if type(count) is not int or count < 0 or type(digest) is not str or not isinstance(mac, str | None):
        raise ContentError("is no head of a log: expected a count, a digest and a mac", path)
    return Head(count, digest, mac)
