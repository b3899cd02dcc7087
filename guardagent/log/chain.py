"""The hash chain: each entry's hash covers its content, its sequence number and the previous hash.

    {"entry":{…},"prev":"sha256:…","seq":2}      the hashed JSON: sorted keys, ASCII, no spaces

With a key, hashes are HMACs. A separate key is derived for each use: an agent's arguments are hashed too, and their
hash must never equal that of an entry.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from typing import NamedTuple

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
