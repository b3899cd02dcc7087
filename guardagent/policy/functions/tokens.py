"""`tokens(text)`: the values in a string that a rule judges one by one.

These are the identifying tokens, in their normal form, and what may name another recipient beside them: a part between
commas, semicolons and line breaks that has no token, the words beside mere numbers, and words like addresses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from guardagent.policy.functions import RuleFunction
from guardagent.policy.provenance.leaves import LeafReader
from guardagent.policy.provenance.normalization import normalized
from guardagent.policy.provenance.tokens import Scanner

_SEPARATOR = re.compile(r"[;\r\n]|,(?![0-9])|(?<![0-9]),")
_URL = re.compile(r"[a-z][a-z0-9+.-]{1,20}+://[^\s\"'<>\x00]++", re.IGNORECASE)
_LETTER = re.compile(r"[^\W0-9_]")
_LIKE_ADDRESS = re.compile(r"\w[./\\:!]\w\w")
_AROUND = " \t\"'<>()[]{}"


@cache
def _scanner() -> Scanner:
    return Scanner()


@lru_cache(1024)
def _items(text: str) -> tuple[str, ...]:
    reader = LeafReader()
    reader.read(text)
    found: list[str] = []
    for leaves in reader.by_labels.values():
        found += (one for leaf in leaves.strings for one in _items_of(leaf))
        found += (one for name in leaves.names for one in _tokens_in(name))
        found += leaves.numbers
    return tuple(dict.fromkeys(filter(None, found))) or (text,)


def _items_of(text: str) -> Iterator[str]:
    found = _tokens_in(text)
    yield from found or [text]
    for part in _SEPARATOR.split(_URL.sub(" ", normalized(text))) if found else ():
        yield from _unnamed(part)


def _tokens_in(text: str) -> list[str]:
    return [token.readings[0] for token in _scanner().read(text).tokens if token.identifies]


def _unnamed(part: str) -> Iterator[str]:
    """Words of a part that may be a recipient, and are no token."""
    found = _tokens_in(part)
    words = [word.strip(_AROUND) for word in part.split()]
    if any(map(_LETTER.search, found)):
        yield from (word for word in words if _LIKE_ADDRESS.search(word) and not _tokens_in(word))
    elif rest := " ".join(word for word in words if _LETTER.search(word)):
        yield rest


FUNCTION = RuleFunction(lambda text: list(_items(text)), (("text",),), result="list")
