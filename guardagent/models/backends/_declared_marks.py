"""The random marks of a prompt, found in its messages.

A prompt declares each mark in a line `MARK is 3f9c2d10aa55e7b1.`, and then fences data between `<data NAME MARK>` and
`</data MARK>`. Data that copies either line declares nothing, as it lies within a fence.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from guardagent.models import Message

_LENGTH = 16
_SIGN = re.compile(
    rf"^MARK is ([0-9a-f]{{{_LENGTH}}})\.$|<data [^\n]{{1,200}} ([0-9a-f]{{{_LENGTH}}})>\n", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class MarkedRequest:
    """Messages with their marks.

    Attributes:
        messages: as they came.
        parts: for each message its strings, and between them the positions of the marks in `marks`.
        marks: in the order of their declaration.
    """

    messages: tuple[Message, ...]
    parts: tuple[tuple[str | int, ...], ...]
    marks: tuple[str, ...]

    def digest(self, *options: float) -> str:
        """Returns a hash of the request and its options that does not depend on the marks."""
        content = json.dumps([options, [message.role for message in self.messages], self.parts])
        return hashlib.sha256(content.encode()).hexdigest()

    def with_marks(self, marks: Sequence[str]) -> list[Message]:
        """Returns the messages with other marks."""
        strings = ("".join(marks[one] if isinstance(one, int) else one for one in part) for part in self.parts)
        return [replace(message, content=text) for message, text in zip(self.messages, strings, strict=True)]

    def constant_marks(self) -> tuple[str, ...]:
        """Returns a mark for each of `marks` that is the same in every run, and occurs nowhere in the strings."""
        text = "\n".join(one for part in self.parts for one in part if isinstance(one, str))
        seed, found = self.digest(), list[str]()
        while len(found) < len(self.marks):
            seed = hashlib.sha256(seed.encode()).hexdigest()
            if seed[:_LENGTH] not in text:
                found.append(seed[:_LENGTH])
        return tuple(found)


def marked_request(messages: Sequence[Message]) -> MarkedRequest:
    """Finds the marks that the messages declare."""
    marks = tuple(_declared("\n".join(message.content for message in messages)))
    parts = tuple(tuple(_split(message.content, marks)) for message in messages)
    return MarkedRequest(tuple(messages), parts, marks)


def _declared(text: str) -> list[str]:
    found: list[str] = []
    place = 0
    while sign := _SIGN.search(text, place):
        declared, fence = sign.groups()
        place = sign.end()
        if declared and declared not in found:
            found.append(declared)
        elif fence in found:
            end = text.find(f"\n</data {fence}>", place - 1)
            place = len(text) if end < 0 else end
    return found


def _split(text: str, marks: Sequence[str]) -> list[str | int]:
    """Returns the strings between the marks, and the positions of the marks."""
    if not marks:
        return [text]
    return [marks.index(one) if one in marks else one for one in re.split(f"({'|'.join(marks)})", text)]
