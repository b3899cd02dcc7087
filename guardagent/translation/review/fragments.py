"""Splits strings for the reader: the quoted words of a sentence, and the code in a rule in natural language."""

from __future__ import annotations

from collections.abc import Iterable

from guardagent.policy.documents.sentences import find_quote


def segments(text: str, quotes: Iterable[str]) -> list[tuple[str, bool]]:
    """Splits a text into parts that are quoted and parts that are not, in order."""
    spans = sorted(span for one in quotes for span in find_quote(text, one))
    found, at = [], 0
    for start, end in spans:
        found += [(text[at:start], False), (text[max(at, start) : end], True)]
        at = max(at, end)
    return [one for one in [*found, (text[at:], False)] if one[0]]


def coded(text: str) -> list[tuple[str, bool]]:
    """Splits a text into parts that stand in code marks and parts that do not, in order."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a mark without its partner
        return [(text, False)]
    return [(part, at % 2 == 1) for at, part in enumerate(parts) if part]
