"""Property-based testing: each clause of the request as a predicate on all runs.

Beside its program the model writes a function `property_N(agent_input, agent_output, facts)` per clause. It returns
"deny" for a run that clause N forbids, "allow" for a run that must pass, and None for a run that the clause does not
cover or cannot decide. Properties are untrusted like the program: they pass the static gate, and run in the sandbox.

The runs are changes of the examples: other values for their fields and facts, or none. The values come from the
examples, from the limits of the request, from constants of the program and its properties, from neighbours of these,
and from a list of unexpected ones. The search tries each single change, pairs, then random changes; always the same
ones. The claims of the properties about a run are compared with the outcome of the program.
"""

from __future__ import annotations

import ast
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, zip_longest
from typing import Any

from guardagent._support import syntax
from guardagent.errors import LimitError, ProgramError
from guardagent.programs.compile.examples import FACTS, RUN_TEXTS, Example, ValueLocation, fact_value, value_locations
from guardagent.programs.compile.suite import Failure, Suite, near_values
from guardagent.programs.compile.trial import FAILED, Properties, RunOutcome, Trial
from guardagent.types import thaw

CLAIMS = ("deny", "allow")
ALL = -1
WHOLE = ""
"""The name of a whole text."""

_MOST_VALUES = 40  # per field
_MOST_WORDS = 20
_MOST_LOCATIONS = 3  # of one name per text
_LONGEST_WORD = 40  # characters of a program's string that may be a value
_MOST_DIGITS = 12
_UNEXPECTED = ("unknown", "", "-1", "0", "1000000", "none")
_SEED = 20260131
_MOST_CHANGES = 4


class PropertyChecker:
    """Evaluates the properties and the program on runs, each run once.

    Attributes:
        counts: clause -> the number of runs per claim of its property.
        runs: the number of distinct runs.
    """

    def __init__(self, trial: Trial, properties: Properties, suite: Suite) -> None:
        self._trial, self._properties, self._suite = trial, properties, suite
        self._known: dict[str, dict[int, Failure]] = {}
        self._claims: dict[str, dict[int, str]] = {}
        self.counts = {number: Counter[str]() for number in properties.numbers}

    @property
    def runs(self) -> int:
        return len(self._known)

    def failures(self, example: Example, note: str, *, labelled: bool = False) -> Mapping[int, Failure]:
        """Returns clause -> failure of the program, or of the property, on a run.

        Args:
            example: the run.
            note: how the run was derived from an example.
            labelled: whether the label is known; it then tests the property instead of the program.

        Raises:
            SandboxError: the sandbox does not work on this machine.
        """
        if example.run not in self._known:
            self._known[example.run] = self._check(example, note, labelled=labelled)
        return self._known[example.run]

    def prepare(self, examples: Sequence[Example]) -> None:
        """Evaluates the properties on several runs at once, for speed only."""
        new = {
            example.run: example
            for example in examples
            if example.run not in self._claims and "now" not in example.facts
        }
        returned = self._trial.return_values(self._properties.program_of_many, list(new.values()))
        for run, claims in zip(new, returned, strict=False):
            self._claims[run] = self._read(claims)

    def _check(self, example: Example, note: str, *, labelled: bool) -> dict[int, Failure]:
        by_clause = self._claims_of(example)
        for number, claim in by_clause.items():
            self.counts[number][claim] += 1
        denied = "deny" in by_clause.values()
        claims = {
            n: c for n, c in by_clause.items() if c == "deny" or c.startswith(FAILED) or (c == "allow" and not denied)
        }
        if not claims:
            return {}
        outcome = RunOutcome(example.label) if labelled else self._trial.outcome(example)
        result = {n: self._failure(n, claim, outcome, example, note, labelled) for n, claim in claims.items()}
        return {number: failure for number, failure in result.items() if failure}

    def _failure(
        self,
        number: int,
        claim: str,
        outcome: RunOutcome,
        example: Example,
        note: str,
        labelled: bool,  # noqa: FBT001
    ) -> Failure | None:
        name = f"property_{number}"
        says = f"{name} says {claim}{f'; {note}' if note else ''}"
        if claim.startswith(FAILED):
            return Failure(name, example, note, "deny, allow or None", f"{name} {claim}")
        if _is_satisfied(claim, outcome):
            return None
        if labelled:
            return Failure(name, example, note, f"a claim that agrees with label {example.label}", says)
        if claim == "allow" and self._suite.must_deny(example):
            return None
        expected = "label 1" if claim == "deny" else "label 0, or undecided"
        return Failure(name, example, says, expected, str(outcome))

    def _claims_of(self, example: Example) -> dict[int, str]:
        """Returns clause -> the claim of its property: deny, allow, an empty string for None, or why it failed."""
        if example.run in self._claims:
            return self._claims[example.run]
        try:
            return self._read(self._trial.return_value(self._properties.program, example))
        except (ProgramError, LimitError) as error:
            return dict.fromkeys(self._properties.numbers, f"{FAILED}{error}")

    def _read(self, returned: object) -> dict[int, str]:
        return {number: _claim_in(returned, number) for number in self._properties.numbers}


def _is_satisfied(claim: str, outcome: RunOutcome) -> bool:
    if claim == "deny":
        return outcome.label == 1
    return outcome.label == 0 or bool(outcome.undecided)


def _claim_in(returned: object, number: int) -> str:
    claim = returned.get(str(number)) if isinstance(returned, Mapping) else None
    if claim is None or (isinstance(claim, str) and (claim in CLAIMS or claim.startswith(FAILED))):
        return claim or ""
    return f"{FAILED}it returned {claim!r}"[:200]


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
            place = next(
                value_location
                for value_location in value_locations(text)
                if (value_location.name, value_location.nth) == (self.name, nth)
            )
            text = place.drop(text) if self.value is None else place.put(text, json.loads(self.value))
        return text


def possible_changes(suite: Suite) -> list[list[Change]]:
    """Returns the possible changes of each field and fact of the examples, the most promising first."""
    words, numbers = _constants(suite.sources)
    limits = list(dict.fromkeys([*suite.limits, *numbers]))
    changes: dict[tuple[str, str, int], list[Any]] = {}
    for example in suite.examples:
        for origin in RUN_TEXTS:
            for location in _changeable_locations(getattr(example, origin)):
                changes.setdefault((origin, location.name, location.nth), []).append(location.value)
                if location.nth:
                    changes.setdefault((origin, location.name, ALL), []).append(location.value)
        changes.setdefault(("agent_output", WHOLE, 0), []).append(example.agent_output)
        for name, value in example.facts.items():
            if isinstance(value, str | int | float | bool):
                changes.setdefault((FACTS, name, 0), []).append(value)
    for name, (origin, linked) in suite.fact_links.items():
        typed = [fact_value(value) for value in changes.get((origin, linked, 0), ())]
        changes.setdefault((FACTS, name, 0), []).extend(typed)
    return [_changes_of_field(*place, values, words, limits) for place, values in sorted(changes.items())]


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
                    yield Change(origin, last.name, _as_json(value if last.path else str(int(value))), last.nth)


def limit_changes(locations: Sequence[Sequence[Change]], limits: Sequence[int | float]) -> list[list[Change]]:
    """Keeps the changes that set a number to a limit of the request, or next to it."""
    near = {step for limit in limits for step in (limit - 1, limit, limit + 1)}
    texts = {_as_json(form) for step in near for form in (step, str(step))}
    return [[change for change in among if change.nth <= 0 and change.value in texts] for among in locations]


def kind_changes(suite: Suite) -> list[Change]:
    """Returns the changes that replace a word of an enumeration, or negate a boolean."""
    changes = [(location, value) for location, values in suite.kinds.items() for value in values]
    return [Change(*place, _as_json(value)) for place, value in changes if isinstance(fact_value(value), str | bool)]


def _number(location: ValueLocation) -> int | float | None:
    if location.path:
        is_number = isinstance(location.value, int | float) and not isinstance(location.value, bool)
        return location.value if is_number else None
    return (
        int(location.value)
        if location.value.isascii() and location.value.isdigit() and len(location.value) < 13
        else None
    )


def _changeable_locations(text: str) -> Iterator[ValueLocation]:
    return (location for location in value_locations(text) if location.nth < _MOST_LOCATIONS)


def _changes_of_field(
    origin: str, name: str, nth: int, values: list[Any], words: Sequence[str], numbers: Sequence[int | float]
) -> list[Change]:
    own = list(dict.fromkeys(map(_as_json, values)))[:_MOST_VALUES]
    more: list[Any] = []
    if name != WHOLE:
        more = [near for value in dict.fromkeys(values) for near in near_values(value, numbers)]
        more = more or [*words, *_disguised(values)]
        more += [*_of_other_types(values, numbers), *_UNEXPECTED] if origin != FACTS else ()
    gone = [Change(origin, name, None, nth)] if name != WHOLE else []
    every = dict.fromkeys([*map(_as_json, more[: 3 * len(numbers)]), *own, *map(_as_json, more)])
    return [*gone, *(Change(origin, name, value, nth) for value in every)]


def _of_other_types(values: Iterable[Any], numbers: Sequence[int | float]) -> Iterator[Any]:
    """Yields numbers of a JSON object as strings, fractions next to limits, and numeric strings with a unit."""
    if any(isinstance(value, float) for value in values):
        yield from (limit + 0.01 for limit in numbers)
    yield from (str(value) for value in values if isinstance(value, int | float))
    yield from (f"{value} dozen" for value in values if isinstance(value, str) and value.isdigit())


def _disguised(values: Iterable[Any]) -> list[str]:
    """Returns variants of known values: in capitals, or as part of another word."""
    known = [value for value in dict.fromkeys(values) if isinstance(value, str) and 0 < len(value) <= _LONGEST_WORD]
    return [form for word in known[:_MOST_WORDS] for form in (word.upper(), f"former {word}", f"{word}-like")]


def _constants(sources: Iterable[str]) -> tuple[list[str], list[int]]:
    """Returns the short strings and the integers in programs."""
    words, numbers = dict[str, None](), dict[int, None]()
    for source in sources:
        for node in ast.walk(syntax.parse(source)):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and value.isprintable() and 1 < len(value) <= _LONGEST_WORD:
                words[value] = None
            elif isinstance(value, int) and not isinstance(value, bool) and len(str(abs(value))) <= _MOST_DIGITS:
                numbers[value] = None
    return list(words)[:_MOST_WORDS], list(numbers)[:_MOST_WORDS]


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


Run = tuple[Example, Sequence[Change]]
"""An example and the changes to apply."""


def single_changes(
    examples: Sequence[Example], places: Sequence[Sequence[Change]], limits: Sequence[int | float]
) -> Iterator[Run]:
    """Yields every example unchanged, with sums at the limits, and with every single change.

    The changes alternate between the locations: the first value of each, then the second.
    """
    for example in examples:
        yield example, ()
        yield from ((example, (change,)) for change in sum_changes(example, limits))
    for rank in zip_longest(*places):
        for change in rank:
            if change is not None:
                yield from ((example, (change,)) for example in examples)


def paired_changes(
    examples: Sequence[Example], limits: Sequence[Sequence[Change]], kinds: Sequence[Change]
) -> Iterator[Run]:
    """Yields every example with a number at a limit and another word, shuffled: a limit may hold for one kind only."""
    numbers = [change for place in limits for change in place]
    pairs = [(kind, number) for kind, number in product(kinds, numbers) if kind.name != number.name]
    every = list(product(examples, pairs))
    random.Random(_SEED).shuffle(every)  # noqa: S311 - the caller takes a sample of them
    for example, (kind, number) in every:
        first = kind.apply(example)
        if example != first != number.apply(first):
            yield example, (kind, number)


def random_changes(examples: Sequence[Example], places: Sequence[Sequence[Change]], count: int) -> Iterator[Run]:
    """Yields `count` random runs: an example with a few changes at different locations."""
    source = random.Random(_SEED)  # noqa: S311 - reproducible on purpose
    for _ in range(count):
        among = source.sample(places, min(len(places), source.randint(1, _MOST_CHANGES)))
        yield source.choice(examples), tuple(source.choice(place) for place in among)


def shrink(run: Run, fails: Callable[[Example, str], bool]) -> tuple[Example, str]:
    """Removes changes while the run still fails, and returns the run with a description of the rest."""
    example, changes = run
    for change in changes:
        fewer = tuple(other_change for other_change in changes if other_change != change)
        if fails(*apply_changes(example, fewer)):
            changes = fewer
    return apply_changes(example, changes)


def apply_changes(example: Example, changes: Sequence[Change]) -> tuple[Example, str]:
    """Returns the changed run, and a description of the effective changes. Whole texts change before their fields."""
    notes = []
    for change in sorted(changes, key=lambda change: bool(change.name)):
        before, example = example, change.apply(example)
        if example != before:
            notes.append(str(change))
    return example, "; ".join(notes)
