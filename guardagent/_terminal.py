"""Makes strings from other sources safe to print on a terminal."""

from __future__ import annotations

import re

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours and the like
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def strip_control_characters(text: str) -> str:
    """Returns a string without escape sequences and without control characters but line breaks and tabs."""
    return text if text.isprintable() else _CONTROLS.sub("", _ESCAPES.sub("", text))


def printable(text: str) -> str:
    """Returns a string with a replacement mark for each control character and each invisible one."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)


def single_line(text: object) -> str:
    """Returns a string on one line, without control characters, direction marks and characters that XML forbids."""
    return " ".join(printable(str(text)).split())
