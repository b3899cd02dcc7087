"""Redacts further occurrences of redacted values: in reasons, in the evidence of a violation, in other arguments.

Numbers and short strings are found as whole words, longer strings anywhere. A value in another notation (a card number
with spaces) is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from guardagent.log.values import canonical_json

MARK = "[redacted]"
MAX_VALUES = 100  # redacted values to search for; with more, everything is redacted
_LONG = 6  # strings of at least this length are also found within words


def leaf_values(value: Any) -> Iterable[Any]:
    """Yields the strings and numbers in a JSON value."""
    if isinstance(value, dict):
        if value.keys() == {"$object"}:
            yield from leaf_values(value["$object"][1:])  # the type's name is not secret
            return
        for item in value.values():
            yield from leaf_values(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaf_values(item)
    elif value is not None and not isinstance(value, bool) and value != "":
        yield value


class OccurrenceRedactor:
    """Removes some values from others.

    Args:
        hidden: string or number -> its replacement as a whole value; within strings that is `[redacted]`.
    """

    def __init__(self, hidden: Mapping[Any, Any]) -> None:
        self._hidden = hidden
        forms = sorted({form for leaf in hidden for form in _forms(leaf)}, key=len, reverse=True)
        self._long = [form for form in forms if len(form) >= _LONG]
        short = [_word(form) for form in forms if len(form) < _LONG]
        self._short = re.compile("|".join(short)) if short else None

    def redact(self, value: Any) -> Any:
        """Returns a JSON value without them."""
        if isinstance(value, dict):
            return value if value.keys() == {"redacted"} else self._mapping(value)
        if isinstance(value, list):
            return [self.redact(item) for item in value]
        if value is None or isinstance(value, bool):
            return value
        if value in self._hidden:
            return self._hidden[value]
        return self._text(value) if isinstance(value, str) else value

    def _mapping(self, value: dict[str, Any]) -> dict[str, Any]:
        redacted: dict[str, Any] = {}
        for key, item in value.items():
            name = self._text(key)
            while name in redacted:
                name += "'"
            redacted[name] = self.redact(item)
        return redacted

    def _text(self, text: str) -> str:
        for form in self._long:
            text = text.replace(form, MARK)
        return self._short.sub(MARK, text) if self._short else text


def _forms(leaf: Any) -> Iterable[str]:
    """Returns the notations in which a value may occur in a string."""
    text = str(leaf)
    return {text, canonical_json(text)[1:-1], repr(text)[1:-1]}


def _word(text: str) -> str:
    return rf"(?<!\w){re.escape(text)}(?!\w)"
