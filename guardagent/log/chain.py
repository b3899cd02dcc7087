"""The hash chain of a log, its head and its key.

Each entry's hash covers its content, its sequence number and the previous hash.

    {"entry":{…},"prev":"sha256:…","seq":2}      the hashed JSON: sorted keys, ASCII, no spaces

With a key, which is never shown, hashes are HMACs that nobody else can compute. A separate key is derived for each use:
an agent's arguments are hashed too, and their hash must never equal that of an entry.

The head is the number of entries and the last hash. Kept in another place, it reveals a truncated log.

    {"guardagent_log_head": 1, "count": 42, "digest": "sha256:…", "mac": null}
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from guardagent._support.files import folder_lock, parse_json, read_text, replace_file
from guardagent.errors import ContentError, InputError, LogError

FIRST = "none"  # the hash before the first entry
_KEYED = "hmac-sha256:"


class Entry(NamedTuple):
    """One entry: its sequence number from 1, its content (a JSON object), the previous hash and its own."""

    seq: int
    text: str
    prev: str
    hash: str

    @property
    def line(self) -> str:
        """The entry as a line of JSON Lines: the hashed JSON, with the hash added at its end."""
        return f'{_hash_input(self.seq, self.text, self.prev)[:-1]},"hash":"{self.hash}"}}'

    @property
    def keyed(self) -> bool:
        return str(self.hash).startswith(_KEYED)


class DamagedLogError(Exception):
    """A log cannot be read further, since it was changed."""


class Chain:
    """Computes and checks hashes.

    Args:
        key: makes them HMACs.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self.keyed = key is not None
        self._entry = _hasher(key, b"guardagent log entry")
        self._value = _hasher(key, b"guardagent log value")
        self._head = _hasher(key, b"guardagent log head")

    def value_hash(self, text: str) -> str:
        """Returns the hash of a value's canonical JSON."""
        return self._value(text)

    def head_hash(self, count: int, digest: str) -> str:
        return self._head(f"{count} {digest}")

    def link(self, last: Entry | None, contents: Sequence[str]) -> list[Entry]:
        """Returns entries with these contents, following the last one."""
        seq, prev = (last.seq, last.hash) if last is not None else (0, FIRST)
        entries = []
        for text in contents:
            seq += 1
            entry = Entry(seq, text, prev, self._entry(_hash_input(seq, text, prev)))
            entries.append(entry)
            prev = entry.hash
        return entries

    def entry_problem(self, entry: Entry) -> str | None:
        """Returns the problem with an entry by itself; None if it is intact."""
        if type(entry.text) is str and self._entry(_hash_input(entry.seq, entry.text, entry.prev)) == entry.hash:
            return None
        if self.keyed and not entry.keyed:
            return "has a hash that was computed without the key"
        return "was changed, or written with another key" if self.keyed else "was changed"

    def link_problem(self, entry: Entry, previous: Entry | None) -> str | None:
        """Returns the problem with an entry as the successor of another; None if it is intact."""
        expected = previous.seq + 1 if previous else 1
        if entry.seq != expected:
            return f"is missing or was moved: entry {entry.seq} is in its place"
        if altered := self.entry_problem(entry):
            return altered
        if entry.prev != (previous.hash if previous else FIRST):
            return "does not follow the entry before it"
        return None


def _hash_input(seq: int, text: str, prev: str) -> str:
    return f'{{"entry":{text},"prev":"{prev}","seq":{seq}}}'


def _hasher(key: bytes | None, use: bytes) -> Callable[[str], str]:
    if key is None:
        return lambda text: f"sha256:{hashlib.sha256(_bytes(text)).hexdigest()}"
    derived = hmac.digest(key, use, "sha256")
    return lambda text: f"{_KEYED}{hmac.digest(derived, _bytes(text), 'sha256').hex()}"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


_VERSION = 1
_MAX_HEAD_BYTES = 10_000


class HeadSigner(Protocol):
    """Signs heads, as a `SigningKey` does."""

    def head(self, count: int, digest: str) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Head:
    """The end of a log.

    Attributes:
        count: the number of entries.
        digest: the hash of the last one.
        mac: authenticates both, if the log has a key.
        signature: signs both, if the log has a private key.
    """

    count: int
    digest: str
    mac: str | None = None
    signature: Mapping[str, str] | None = None

    @classmethod
    def after(cls, last: Entry | None, chain: Chain, signer: HeadSigner | None = None) -> Head:
        """Returns the head of a log that ends with an entry."""
        count, digest = (last.seq, last.hash) if last is not None else (0, FIRST)
        mac = chain.head_hash(count, digest) if chain.keyed else None
        return cls(count, digest, mac, None if signer is None else signer.head(count, digest))

    @classmethod
    def load(cls, path: Path | str) -> Head:
        """Reads the head from a file.

        Raises:
            InputError: it is missing, or not a head.
        """
        return _parse_head(parse_json(read_text(path, limit=_MAX_HEAD_BYTES), path), path)

    def to_dict(self) -> dict[str, Any]:
        head = {"guardagent_log_head": _VERSION, **asdict(self)}
        if self.signature is None:
            del head["signature"]  # as releases without signatures read it
        return head

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
        """Makes sure that a log is at least as long as its stored head.

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
    names = {"guardagent_log_head", "count", "digest", "mac"}
    if not isinstance(value, dict) or value.keys() - {"signature"} != names:
        raise ContentError("is not the head of a log; expected one from 'AuditLog' or 'guardagent log verify'", path)
    version, count, digest, mac = (value[key] for key in ("guardagent_log_head", "count", "digest", "mac"))
    if version != _VERSION:
        raise ContentError(f"has version {version!r}; expected version {_VERSION}", path)
    if type(count) is not int or count < 0 or type(digest) is not str or not isinstance(mac, str | None):
        raise ContentError("is not the head of a log; expected 'count', 'digest' and 'mac'", path)
    signature = value.get("signature")
    if not isinstance(signature, dict | None):
        raise ContentError("has an invalid signature; expected 'key' and 'value'", path)
    return Head(count, digest, mac, signature)


MIN_KEY = 16  # bytes
VARIABLE = "GUARDAGENT_LOG_KEY"
_MAX_KEY_BYTES = 4096


def load_key(path: Path | str | None = None) -> bytes | None:
    """Returns the key in a file, else that in the environment variable GUARDAGENT_LOG_KEY, else None.

    A line break at the end is ignored.

    Raises:
        InputError: the file cannot be read, or the key is too short.
    """
    if path is None:
        value = os.environ.get(VARIABLE)
        return checked_key(os.fsencode(value).rstrip(b"\r\n"), f"${VARIABLE}") if value is not None else None
    try:
        with Path(path).open("rb") as file:
            key = file.read(_MAX_KEY_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; expected the key file of a log") from None
    return checked_key(key.rstrip(b"\r\n"), str(path))


def checked_key(key: bytes, name: str) -> bytes:
    """Returns a key that is long enough.

    Raises:
        InputError: it is too short.
    """
    if not isinstance(key, bytes) or len(key) < MIN_KEY:
        raise InputError(f"{name}: is not a log key; expected at least {MIN_KEY} random bytes")
    return key
