"""Changes of the examples: other values for their fields and facts, or none.

The values come from the examples, from the limits of the request, from constants of the program and its properties,
from neighbours of these, and from a list of unexpected ones.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from guardagent._support import syntax
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.facts import fact_value
from guardagent.programs.compile.fields import ValueLocation, value_locations
from guardagent.programs.compile.suite import FACTS, RUN_TEXTS, Suite, near_values
from guardagent.types import thaw

ALL = -1
WHOLE = ""
"""The name of a whole text."""

_MOST = 40  # values per field
_MOST_WORDS = 20
_MOST_TIMES = 3  # locations of one name per text
_LONGEST = 40  # characters of a program's string that may be a value
_MOST_DIGITS = 12
_UNEXPECTED = ("unknown", "", "-1", "0", "1000000", "none")


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a run: a field or fact gets another value, or is removed.

    Attributes:
        value: the value as JSON, which is hashable; None to remove the field.
        nth: the index among the fields of this name; `ALL` for all of them.
    """

    origin: str
    name: str
    value: str | None
    nth: int = 0

    def __str__(self) -> str:
        which = " (all of them)" if self.nth == ALL else f" (number {self.nth + 1})" if self.nth else ""
        location = f"the {self.name or 'text'}{which} of {self.origin}"
        return f"{location} missing" if self.value is None else f"{location}: {str(json.loads(self.value))[:60]}"

    def apply(self, example: Example) -> Example:
        """Returns the changed run; the same run if it has no such field."""
        if self.origin == FACTS:
            facts = {name: value for name, value in thaw(example.facts).items() if name != self.name}
            return replace(example, facts=facts | ({} if self.value is None else {self.name: json.loads(self.value)}))
        return example.with_text(self.origin, self._changed(getattr(example, self.origin)))

    def _changed(self, text: str) -> str:
        if self.name == WHOLE:
            return text if self.value is None else str(json.loads(self.value))
        numbers = [location.nth for location in value_locations(text) if location.name == self.name]
        for nth in reversed(numbers) if self.nth == ALL else [self.nth] if self.nth in numbers else []:
            place = next(one for one in value_locations(text) if (one.name, one.nth) == (self.name, nth))
            text = place.drop(text) if self.value is None else place.put(text, json.loads(self.value))
        return text


def changes(suite: Suite) -> list[list[Change]]:
    """Returns the possible changes of each field and fact of the examples, the most promising first."""
    words, numbers = _constants(suite.sources)
    limits = list(dict.fromkeys([*suite.limits, *numbers]))
    found: dict[tuple[str, str, int], list[Any]] = {}
    for example in suite.examples:
        for origin in RUN_TEXTS:
            for location in _places(getattr(example, origin)):
                found.setdefault((origin, location.name, location.nth), []).append(location.value)
                if location.nth:
                    found.setdefault((origin, location.name, ALL), []).append(location.value)
        found.setdefault(("agent_output", WHOLE, 0), []).append(example.agent_output)
        for name, value in example.facts.items():
            if isinstance(value, str | int | float | bool):
                found.setdefault((FACTS, name, 0), []).append(value)
    for name, (origin, field) in suite.fact_links.items():
        typed = [fact_value(value) for value in found.get((origin, field, 0), ())]
        found.setdefault((FACTS, name, 0), []).extend(typed)
    return [_of_field(*place, values, words, limits) for place, values in sorted(found.items())]


def sum_changes(example: Example, limits: Sequence[int | float]) -> Iterator[Change]:
    """For numbers that have several fields of one name: the last of them such that all together come to a limit."""
    for origin in RUN_TEXTS:
        named: dict[str, list[ValueLocation]] = {}
        for location in value_locations(getattr(example, origin)):
            if _number(location) is not None:
                named.setdefault(location.name, []).append(location)
        for *rest, last in named.values():
            for total in (near for limit in limits for near in (limit - 1, limit, limit + 0.01, limit + 1)):
                value = round(total - sum(_number(place) or 0 for place in rest), 2)
                if rest and value > 0 and (last.path or value == int(value)):
                    yield Change(origin, last.name, _json(value if last.path else str(int(value))), last.nth)


def limit_changes(locations: Sequence[Sequence[Change]], limits: Sequence[int | float]) -> list[list[Change]]:
    """Keeps the changes that set a number to a limit of the request, or next to it."""
    near = {step for limit in limits for step in (limit - 1, limit, limit + 1)}
    texts = {_json(form) for step in near for form in (step, str(step))}
    return [[change for change in changes if change.nth <= 0 and change.value in texts] for changes in locations]


def kind_changes(suite: Suite) -> list[Change]:
    """Returns the changes that replace a word of an enumeration, or negate a boolean."""
    found = [(location, value) for location, values in suite.kinds.items() for value in values]
    return [Change(*place, _json(value)) for place, value in found if isinstance(fact_value(value), str | bool)]


def _number(location: ValueLocation) -> int | float | None:
    if location.path:
        is_number = isinstance(location.value, int | float) and not isinstance(location.value, bool)
        return location.value if is_number else None
    return (
        int(location.value)
        if location.value.isascii() and location.value.isdigit() and len(location.value) < 13
        else None
    )


def _places(text: str) -> Iterator[ValueLocation]:
    return (location for location in value_locations(text) if location.nth < _MOST_TIMES)


def _of_field(
    origin: str, name: str, nth: int, values: list[Any], words: Sequence[str], numbers: Sequence[int | float]
) -> list[Change]:
    own = list(dict.fromkeys(map(_json, values)))[:_MOST]
    more: list[Any] = []
    if name != WHOLE:
        more = [near for value in dict.fromkeys(values) for near in near_values(value, numbers)]
        more = more or [*words, *_disguised(values)]
        more += [*_of_other_types(values, numbers), *_UNEXPECTED] if origin != FACTS else ()
    gone = [Change(origin, name, None, nth)] if name != WHOLE else []
    every = dict.fromkeys([*map(_json, more[: 3 * len(numbers)]), *own, *map(_json, more)])
    return [*gone, *(Change(origin, name, value, nth) for value in every)]


def _of_other_types(values: Iterable[Any], numbers: Sequence[int | float]) -> Iterator[Any]:
    """Yields numbers of a JSON object as strings, fractions next to limits, and numeric strings with a unit."""
    if any(isinstance(value, float) for value in values):
        yield from (limit + 0.01 for limit in numbers)
    yield from (str(value) for value in values if isinstance(value, int | float))
    yield from (f"{value} dozen" for value in values if isinstance(value, str) and value.isdigit())


def _disguised(values: Iterable[Any]) -> list[str]:
    """Returns variants of known values: in capitals, or as part of another word."""
    known = [value for value in dict.fromkeys(values) if isinstance(value, str) and 0 < len(value) <= _LONGEST]
    return [form for one in known[:_MOST_WORDS] for form in (one.upper(), f"former {one}", f"{one}-like")]


def _constants(sources: Iterable[str]) -> tuple[list[str], list[int]]:
    """Returns the short strings and the integers in programs."""
    words, numbers = dict[str, None](), dict[int, None]()
    for source in sources:
        for node in ast.walk(syntax.parse(source)):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and value.isprintable() and 1 < len(value) <= _LONGEST:
                words[value] = None
            elif isinstance(value, int) and not isinstance(value, bool) and len(str(abs(value))) <= _MOST_DIGITS:
                numbers[value] = None
    return list(words)[:_MOST_WORDS], list(numbers)[:_MOST_WORDS]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
