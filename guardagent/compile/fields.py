"""Named fields in a text: lines such as `Identity: nursing`, as people and agents write them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_FIELD = re.compile(r"^([ \t]*)([A-Za-z][\w-]*(?: [\w-]+){0,3})[ \t]*:[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Field:
    """One line with a name and a value. `start` and `end` are the place of the value in the text."""

    name: str
    value: str
    indent: str
    start: int
    end: int

    def line(self, value: str | None = None) -> str:
        return f"{self.indent}{self.name}: {self.value if value is None else value}"


def fields_of(text: str) -> list[Field]:
    """The fields of a text, in their order."""
    return [
        Field(match[2], match[3], match[1], match.start(3), match.end(3))
        for match in _FIELD.finditer(text)
        if not match[3].startswith("//")  # an address
    ]


def with_value(text: str, field: Field, value: str) -> str:
    return text[: field.start] + value + text[field.end :]


def appended(text: str, more: str) -> str:
    """A text with more at its end: within its longest value, where it is a JSON object and must stay one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return f"{text}\n{more}"
    longest = max(_texts(value), key=len, default="")
    changed = _replaced(value, longest, f"{longest} {more}") if longest else {**value, "note": more}
    return json.dumps(changed, ensure_ascii=False)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    return new if value == old and isinstance(value, str) else value


def free_text(text: str) -> Field | None:
    """The field that a user most likely wrote in free words: the longest."""
    return max(fields_of(text), key=lambda field: len(field.value), default=None)
