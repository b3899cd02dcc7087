"""The shape of the examples: their fields and facts, and the values that could stand there.

A value comes from the examples, from the words that the program and its properties compare with, from next to a number
of these, or it is one that nobody expects; and any field or fact can be missing.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from guardagent import syntax
from guardagent.compile.examples import Example
from guardagent.compile.fields import fields_of, with_value
from guardagent.compile.world import World
from guardagent.types import thaw

PARTS = ("agent_input", "agent_output", "facts")
WHOLE = ""
"""The name of a part as a whole."""

_MOST = 40  # values of a field
_MOST_WORDS = 20
_LONGEST = 40  # characters of a word in a program that may be a value
_MOST_DIGITS = 12
_UNEXPECTED = ("0", "-1", "1000000", "unknown", "none")
_TRUTHS = {"true": "False", "false": "True", "yes": "no", "no": "yes"}


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a run: a field of a part gets a value, or goes. JSON of the value, so that it can be compared."""

    part: str
    name: str
    value: str | None

    def __str__(self) -> str:
        place = f"the {self.name or 'text'} of {self.part}"
        return f"{place} missing" if self.value is None else f"{place}: {str(json.loads(self.value))[:60]}"

    def apply(self, example: Example) -> Example:
        """The changed run; the same one where it has no such field."""
        if self.part == "facts":
            facts = {name: value for name, value in thaw(example.facts).items() if name != self.name}
            return replace(example, facts=facts | ({} if self.value is None else {self.name: json.loads(self.value)}))
        if self.part == "agent_input":
            return replace(example, agent_input=_changed(example.agent_input, self.name, self.value))
        return replace(example, agent_output=_changed(example.agent_output, self.name, self.value))


def changes(world: World, sources: Iterable[str]) -> list[list[Change]]:
    """For each field that the examples have, the changes that can be made to it."""
    words, numbers = _constants(sources)
    found: dict[tuple[str, str], list[Any]] = {}
    for example in world.examples:
        for part in PARTS[:2]:
            text = getattr(example, part)
            for name, value in _fields(text).items():
                found.setdefault((part, name), []).append(value)
        found.setdefault(("agent_output", WHOLE), []).append(example.agent_output)
        for name, value in example.facts.items():
            if isinstance(value, str | int | float | bool):
                found.setdefault(("facts", name), []).append(value)
    return [_of_field(*place, values, words, numbers) for place, values in sorted(found.items())]


def _of_field(part: str, name: str, values: list[Any], words: Sequence[str], numbers: Sequence[int]) -> list[Change]:
    texts = list(dict.fromkeys(map(_json, values)))[:_MOST]
    more: list[Any] = []
    if name != WHOLE:
        more = [near for value in values for near in _near(value, numbers)] or [*words]
        more += _UNEXPECTED if part != "facts" else ()
    all_values = list(dict.fromkeys([*texts, *map(_json, more)]))
    gone = [Change(part, name, None)] if name != WHOLE else []
    return [*(Change(part, name, value) for value in all_values), *gone]


def _near(value: Any, numbers: Sequence[int]) -> list[Any]:
    """Values at the limits that are compared with, and next to this one; for a truth the other one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return sorted({near for number in (*numbers, int(value)) for near in (number - 1, number, number + 1)})
    text = str(value).strip()
    if text.lower() in _TRUTHS:
        return [_TRUTHS[text.lower()]]
    if re.fullmatch(r"\d+", text, re.ASCII) and len(text) <= _MOST_DIGITS:
        return [str(number) for number in _near(int(text), numbers)]
    return []


def _constants(sources: Iterable[str]) -> tuple[list[str], list[int]]:
    """The short texts, and the whole numbers, that stand in programs."""
    words, numbers = dict[str, None](), dict[int, None]()
    for source in sources:
        for node in ast.walk(syntax.parse(source)):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and value.isprintable() and 1 < len(value) <= _LONGEST:
                words[value] = None
            elif isinstance(value, int) and not isinstance(value, bool) and len(str(abs(value))) <= _MOST_DIGITS:
                numbers[value] = None
    return list(words)[:_MOST_WORDS], list(numbers)[:_MOST_WORDS]


def _fields(text: str) -> dict[str, Any]:
    """Field -> value: the plain values of a JSON object, else of lines `Name: value`."""
    if (record := _record(text)) is not None:
        return {name: value for name, value in record.items() if isinstance(value, str | int | float | bool)}
    return {field.name: field.value for field in fields_of(text)}


def _changed(text: str, name: str, value: str | None) -> str:
    if name == WHOLE:
        return text if value is None else str(json.loads(value))
    if (record := _record(text)) is not None:
        rest = {key: item for key, item in record.items() if key != name or value is not None}
        return _json(rest | ({name: json.loads(value)} if value is not None and name in record else {}))
    for field in reversed(fields_of(text)):
        if field.name == name:
            text = (
                _without_line(text, field.start) if value is None else with_value(text, field, f"{json.loads(value)}")
            )
    return text


def _without_line(text: str, place: int) -> str:
    start = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    return (text[:start] + (text[end + 1 :] if end >= 0 else "")).rstrip("\n")


def _record(text: str) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text)
        return value if isinstance(value, dict) else None
    return None


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
