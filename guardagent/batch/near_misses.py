"""Recognizes keys of a record that stand in for a known key: their values would be lost."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from guardagent._support.arguments import normalized_name

_SYNONYMS = {
    **dict.fromkeys(("arguments", "arg", "kwargs", "parameters", "params"), "args"),
    "actions": "action",
    "decisions": "decision",
    "tag": "tags",
}
_SHORTEST = 4  # characters; a typing error in a shorter name is often another name
_LONG = 8  # characters from which on two typing errors count


def near_miss(key: str, known: frozenset[str], present: Collection[str]) -> str | None:
    """Returns the known key that an unknown one probably means; None if it is another key.

    Args:
        key: the unknown key.
        known: the known keys.
        present: the known keys of the record; next to its key a synonym has a meaning of its own.
    """
    synonym = _SYNONYMS.get(key)
    if synonym in known:
        return None if synonym in present else synonym
    return _nearest(key, known)


def is_unrelated(key: str, known: frozenset[str]) -> bool:
    """Whether a key is known, or stands in for no known key, whichever other keys the record has."""
    return key in known or (_SYNONYMS.get(key) not in known and _nearest(key, known) is None)


@lru_cache(4096)
def _nearest(key: str, known: frozenset[str]) -> str | None:
    return next((name for name in sorted(known) if _is_near(key, name)), None)


def _is_near(key: str, name: str) -> bool:
    """Whether the names differ in case, in separators or by typing errors: a transposition counts as one."""
    plain = _letters(key)
    if plain == _letters(name):
        return True
    if len(plain) < _SHORTEST or len(name) < _SHORTEST:
        return False
    from rapidfuzz.distance.OSA import distance

    return distance(plain, _letters(name)) <= (2 if len(name) >= _LONG else 1)


def _letters(name: str) -> str:
    return "".join(sign for sign in normalized_name(name) if sign not in "_- ")
