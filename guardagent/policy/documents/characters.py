"""Finds characters that nobody sees: they can turn the order of words, or carry text for machines alone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from guardagent.policy.documents.sentences import DocumentFinding, Sentence

_KINDS = {
    "characters that change the direction of the text, so that it reads differently than it is": (
        "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    ),
    "characters without width": (
        "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0"
    ),
    "characters that carry hidden text": "\ufe00-\ufe0e\U000e0000-\U000e0fff",
    "control characters": "\x00-\x08\x0b-\x1f\x7f-\x9f",
}
_NAMED = 5


def invisible_characters(sentences: Iterable[Sentence]) -> list[DocumentFinding]:
    """Reports the invisible characters of sentences, one finding for each kind. They remain in the text."""
    known = list(sentences)
    found = [_finding(kind, f"[{signs}]", known) for kind, signs in _KINDS.items()]
    return [one for one in found if one is not None]


def _finding(kind: str, pattern: str, sentences: list[Sentence]) -> DocumentFinding | None:
    search = re.compile(pattern).search
    having = [one for one in sentences if search(one.text)]
    if not having:
        return None
    numbers = ", ".join(str(one.number) for one in having[:_NAMED]) + (", …" if len(having) > _NAMED else "")
    names = sorted({_name(sign) for one in having for sign in re.findall(pattern, one.text)})
    listed = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
    message = f"{kind}: {listed}, in sentence {numbers}"
    return DocumentFinding("characters", message, having[0].place, having[0].text)


def _name(sign: str) -> str:
    return f"U+{ord(sign):04X} {unicodedata.name(sign, '')}".strip()
