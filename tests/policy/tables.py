"""Tables in plain text."""

from __future__ import annotations

import re


def paragraphs(text: str) -> list[list[str]]:
    """The lines of each paragraph of a table; all but the first are indented."""
    return [[line.strip() for line in part.splitlines()] for part in re.split(r"\n(?! )", text.strip())]
