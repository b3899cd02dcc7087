"""HTML character references, such as `&#64;`, which a reader sees as characters."""

from __future__ import annotations

import html
import re

_REFERENCE = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def without_entities(text: str) -> str:
    """The string with each character reference replaced by its character."""
    return _REFERENCE.sub(lambda match: html.unescape(match[0]), text) if "&" in text else text
