"""The suite that a program is examined with: the compile target, the examples, and values derived from them.

The numbers in the request are among these values: digits with separators, and number words up to the thousands. At the
end come the results of examinations, and citations of examples.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from guardagent.programs.compile.examples import FACTS, CompileTarget, Example, linked_facts, named_facts

_DIGITS = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:[,_]\d{3})+|\d{1,12})(?:\.\d{1,6})?(?!\w)")
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = {word: number for number, word in enumerate(_SMALL)} | {word: 10 * at for at, word in enumerate(_TENS, 2)}
_TIMES = {"hundred": 100, "thousand": 1000}
_SPELLED = re.compile(
    rf"\b({'|'.join(_WORDS)})(?:[\s-]+({'|'.join(_SMALL[1:10])}))?(?:[\s-]+({'|'.join(_TIMES)}))?\b", re.IGNORECASE
)


def limits_of(request: str) -> list[int | float]:
    """The numbers of a request, each once, in their order."""
    limits = [(match.start(), _number(match[0])) for match in _DIGITS.finditer(request)]
    limits += [(match.start(), _spelled(match)) for match in _SPELLED.finditer(request)]
    return list(dict.fromkeys(number for _, number in sorted(limits)))


def _number(text: str) -> int | float:
    digits = text.replace(",", "").replace("_", "")
    return float(digits) if "." in digits else int(digits)


def _spelled(match: re.Match[str]) -> int:
    first, unit, times = (group.lower() if group else "" for group in match.groups())
    return (_WORDS[first] + _WORDS.get(unit, 0)) * _TIMES.get(times, 1)


# --- the suite

INPUTS = 2000
"""The default number of random runs per property search."""

_HEADINGS = re.compile(r"^\[[^\]]*\] ")
_MOST_VALUES = 12
_MOST_OTHERS = 10
_MOST_DIGITS = 12
_OPPOSITES = {"true": "False", "false": "True", "yes": "no", "no": "yes"}


@dataclass(frozen=True)
class Suite:
    """A compile target with its examples and the options of its examinations.

    Attributes:
        excluded: the transformations that the user excluded.
        inputs: how many random runs, derived from the examples, test the properties.
        set_aside: the ids of examples that the user set aside because the model disputes their label.
        undecidable: the sentences that the user accepted as undecidable from a run.
        needs_properties: whether each clause that sets a rule must have a property.
        sources: the program under examination, and its properties.
        held_out: examples that no model sees and no examination uses; they judge the program at the end.
    """

    target: CompileTarget
    examples: Sequence[Example]
    excluded: frozenset[str] = frozenset()
    inputs: int = INPUTS
    set_aside: tuple[str, ...] = ()
    undecidable: frozenset[int] = frozenset()
    needs_properties: bool = True
    sources: tuple[str, ...] = ()
    held_out: tuple[Example, ...] = ()

    @cached_property
    def limits(self) -> list[int | float]:
        """The numbers of the request's clauses."""
        return limits_of("\n".join(_HEADINGS.sub("", clause.text) for clause in self.target.clauses))

    @cached_property
    def kinds(self) -> Mapping[tuple[str, str], tuple[Any, ...]]:
        """(origin, name) -> the values of a field or fact in the examples, if few enough for an enumeration."""
        kinds: dict[tuple[str, str], list[Any]] = {}
        for origin, name, value in self._values():
            kinds.setdefault((origin, name), []).append(value)
        distinct = {location: list(dict.fromkeys(values)) for location, values in kinds.items()}
        return {
            place: tuple(values)
            for place, values in distinct.items()
            if len(values) <= _MOST_VALUES and (place[0] == FACTS or len(kinds[place]) > len(values))
        }

    def alternatives(self, origin: str, name: str, value: Any) -> list[Any]:
        """Alternatives to a value: others of its enumeration, its opposite, numbers at the limits."""
        alternatives = [
            known_value for known_value in self.kinds.get((origin, name), ()) if type(known_value) is type(value)
        ]
        alternatives += near_values(value, self.limits)
        return [alternative for alternative in dict.fromkeys(alternatives) if alternative != value][:_MOST_OTHERS]

    @cached_property
    def fact_links(self) -> Mapping[str, tuple[str, str]]:
        """Fact -> the (origin, name) of the text field with the same meaning."""
        return linked_facts(named_facts(self.target, self.examples, self.sources), self.examples)

    def must_deny(self, example: Example) -> bool:
        """Whether a required check denies a run; no program may allow it then."""
        checks = self.target.required_checks
        return any(check(example.event, example.context).violations for check in checks)

    def _values(self) -> Iterator[tuple[str, str, Any]]:
        for example in self.examples:
            yield from ((origin, location.name, location.value) for origin, location in example.locations())
            for name, value in example.facts.items():
                if isinstance(value, str | int | float):
                    yield FACTS, name, value


def near_values(value: Any, limits: Sequence[int | float]) -> list[Any]:
    """For a number, those at and next to the limits and some of other lengths; for a boolean, its negation."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        near = [step for limit in limits for step in (limit - 1, limit, limit + 1)]
        return list(dict.fromkeys([*near, 0, 99, 9, 1000, value - 1, value + 1]))
    text = str(value).strip()
    if text.lower() in _OPPOSITES:
        return [_OPPOSITES[text.lower()]]
    if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return [str(number) for number in near_values(int(text), [limit for limit in limits if isinstance(limit, int)])]
    return []


# --- results


@dataclass(frozen=True, slots=True)
class Failure:
    """A run with an unexpected outcome.

    Attributes:
        note: the change to the example; empty for the example itself.
    """

    test: str
    example: Example
    note: str
    expected: str
    actual: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "test": self.test,
            "example": self.example.id,
            "note": self.note,
            "expected": self.expected,
            "given": self.actual,
            **self.example.inputs,
        }


@dataclass(slots=True)
class ExaminationResult:
    """The result of one kind of test: the number of runs, and the failures.

    Attributes:
        unchecked: what could not be tested, and why; for the report.
        missing: a missing piece of the answer; goes back to the model like a failure.
        advice: a suggested change that no failing run supports; for the model and the report.
    """

    name: str
    about: str
    runs: int = 0
    failures: list[Failure] = field(default_factory=list)
    unchecked: str = ""
    missing: str = ""
    advice: str = ""

    def to_dict(self) -> dict[str, Any]:
        failures = [failure.to_dict() for failure in self.failures]
        row = {"name": self.name, "about": self.about, "runs": self.runs, "failures": failures}
        return row | ({"lacks": self.missing} if self.missing else {})


def citations_in(tree: ast.Module, suite: Suite, length: int) -> Iterator[tuple[ast.Constant, str, Example]]:
    """Yields (node, string, example) for literals of at least `length` characters that occur in one example only.

    They are a sign of memorization. Literals that also occur in the request or the specification do not count.
    """
    known = f"{suite.target.request}\n{suite.target.whole_specification}"
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(node, ast.Constant) and isinstance(text, str) and len(text) >= length and text not in known:
            holders = [
                example for example in suite.examples if text in example.agent_input or text in example.agent_output
            ]
            if len(holders) == 1 < len(suite.examples):
                yield node, text, holders[0]
