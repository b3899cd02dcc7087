"""Texts of others, before a person sees them: without what drives a terminal."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours and the like
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def strip_control_characters(text: str) -> str:
    """A text without the colours of libraries, and without all control characters but line breaks."""
    return text if text.isprintable() else _CONTROLS.sub("", _ESCAPES.sub("", text))


def printable(text: str) -> str:
    """A text with a mark in the place of each control character, and of all others that are not seen."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)
