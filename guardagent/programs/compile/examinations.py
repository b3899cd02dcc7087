"""Examinations that a program must pass before it is written, in their order, up to the first that fails.

An examination is a generator that yields an `ExaminationResult` per kind of test; a new one also goes into
`EXAMINATIONS`.
"""

from __future__ import annotations

import ast
import json
import re
import time
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice, zip_longest
from typing import Any

from guardagent._support import syntax
from guardagent.programs.compile import transformations
from guardagent.programs.compile.examples import Example, value_locations
from guardagent.programs.compile.properties import (
    CLAIMS,
    PropertyChecker,
    Run,
    apply_changes,
    kind_changes,
    limit_changes,
    paired_changes,
    possible_changes,
    random_changes,
    shrink,
    single_changes,
)
from guardagent.programs.compile.suite import ExaminationResult, Failure, Suite, citations_in
from guardagent.programs.compile.transformations import Transformation, Variant
from guardagent.programs.compile.trial import Properties, RunOutcome, Trial
from guardagent.types import thaw


def examine(trial: Trial, suite: Suite) -> list[ExaminationResult]:
    """Runs the examinations of a program, up to the first that fails.

    Raises:
        SandboxError: the sandbox does not work on this machine.
    """
    results: list[ExaminationResult] = []
    suite = replace(suite, sources=(trial.program, trial.properties.source))
    for examination in EXAMINATIONS:
        results += examination(trial, suite)
        if any(result.failures for result in results):
            break
    return results


def _labels(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    """Examines every example unchanged: the program returns its label, and does not crash."""
    result = ExaminationResult("examples", "every example gets its label; a crash does not count as a denial")
    for example in suite.examples:
        outcome = trial.outcome(example)
        result.runs += 1
        if outcome.crash or outcome.label != example.label:
            result.failures.append(Failure(result.name, example, "", f"label {example.label}", str(outcome)))
    yield result


_MOST_NAMED = 5


def _details(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    """Examines the details of every annotated example: the program returns at least these."""
    result = ExaminationResult("details", "the program returns the details of every example that has some")
    for example in suite.examples:
        if example.details is None:
            continue
        result.runs += 1
        actual = trial.outcome(example).details
        wrong = {
            name: actual.get(name)
            for name, value in example.details.items()
            if not _equal_details(value, actual.get(name))
        }
        if wrong:
            details = ({name: thaw(example.details[name]) for name in wrong}, wrong)
            texts = (f"details {json.dumps(each, ensure_ascii=False, default=str)}" for each in details)
            result.failures.append(Failure(result.name, example, "its details", *texts))
    result.unchecked = _without_details_note(suite)
    yield result


def _without_details_note(suite: Suite) -> str:
    """Returns a note on the examples without details; empty if all have some."""
    names = [example.id for example in suite.examples if example.details is None]
    if len(names) == len(suite.examples):
        return "no example has details, so all test the label only"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    listed = f"{', '.join(names[:_MOST_NAMED])}{more}"
    return f"these examples have no details and test the label only: {listed}" if names else ""


def _equal_details(expected: Any, actual: Any) -> bool:
    """Whether two values are equal, with lists compared as multisets."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return expected.keys() == actual.keys() and all(_equal_details(expected[key], actual[key]) for key in expected)
    if isinstance(expected, list | tuple) and isinstance(actual, list | tuple):
        rest = list(actual)
        return len(expected) == len(actual) and all(_remove_equal(detail, rest) for detail in expected)
    return (type(expected) is type(actual) and expected == actual) or (
        _are_numbers(expected, actual) and expected == actual
    )


def _remove_equal(value: Any, among: list[Any]) -> bool:
    """Removes an equal value from a list, and returns whether there was one."""
    for at, candidate in enumerate(among):
        if _equal_details(value, candidate):
            del among[at]
            return True
    return False


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _answers(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    """Examines the answer for every example: unchanged for an allowed run, absent for a denied one."""
    result = ExaminationResult(
        "answers", "the answer of an allowed run contains words of its output only; a denied run has no answer"
    )
    for example in suite.examples:
        outcome = trial.outcome(example)
        result.runs += 1
        if wrong := _answer_mismatch(example, outcome):
            result.failures.append(Failure(result.name, example, "its answer", *wrong))
    yield result


def _answer_mismatch(example: Example, outcome: RunOutcome) -> tuple[str, str] | None:
    """Returns (expected, actual) if they differ."""
    if outcome.leaks:
        return "an answer of None with label 1", "label 1 with an answer"
    text = f"{example.agent_output}\n" + "\n".join(str(place.value) for place in value_locations(example.agent_output))
    if added := [word for word in _words(outcome.answer or "") if word not in set(_words(text))]:
        return "the run's answer, unchanged", f"an answer with words that the output lacks: {', '.join(added[:5])}"
    return None


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", unicodedata.normalize("NFKC", text))


_SHORTEST_CITATION = 12  # characters; shorter literals are often words of a rule
_FEWEST_EXAMPLES = 3  # examples; one of two would be half already


def _memorization(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    """Examines memorization: string literals from single examples, for at least half of the examples."""
    result = ExaminationResult(
        "by_heart",
        "the program does not memorize the examples: it cites single ones for less than half of them",
        len(suite.examples),
    )
    quotes = citations_in(syntax.parse(trial.program), suite, _SHORTEST_CITATION)
    by_example = {example.id: (node, text) for node, text, example in quotes}
    if len(suite.examples) >= _FEWEST_EXAMPLES and 2 * len(by_example) >= len(suite.examples):
        for example in suite.examples:
            if example.id in by_example:
                node, text = by_example[example.id]
                actual = f"line {node.lineno} contains {text[:60]!r}"
                expected = "no literal from this example only"
                result.failures.append(Failure(result.name, example, "as it is", expected, actual))
    yield result


_LANGUAGE_PATTERNS = {
    "SQL": re.compile(r"\bSELECT\b|\bFROM\b|\bJOIN\b", re.IGNORECASE),
    "JSON": re.compile(r'"\w+\\*"\s*(?:\\s[*+])?\s*:'),
    "Python": re.compile(r"\w+\\\(|\bimport\b|\bdef\b"),
}
_PARSER_DESCRIPTIONS = {
    "SQL": re.compile(r"(?<![A-Za-z])SQL(?![A-Za-z])|\b(?:table|database)s? and columns\b", re.IGNORECASE),
    "Python": re.compile(r"\bPython\b|\bcode\b"),
}
_BUILTIN_PARSERS = {"JSON": {"loads", "JSONDecoder"}}


def _parsers(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    """Advises against regular expressions for SQL, JSON or Python if a parser is available.

    Every program has a JSON parser. SQL and Python have one if the description of a toolbox function mentions them.
    """
    tree = syntax.parse(trial.program)
    named = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name)
    }
    advice = []
    for language, words in _LANGUAGE_PATTERNS.items():
        parsers = _parsers_of(language, suite)
        line = next((line for line, pattern in _patterns_in(tree) if words.search(pattern)), 0)
        if line and parsers and not parsers & named:
            advice.append(
                f"line {line} matches {language} with a regular expression; "
                f"expected a parser: {' or '.join(map(repr, sorted(parsers)))}"
            )
    yield ExaminationResult(
        "parsers", "SQL, JSON and Python are parsed if a parser is available", advice="; ".join(advice)
    )


def _parsers_of(language: str, suite: Suite) -> set[str]:
    """Returns the functions that parse a language, by their parameter type and description."""
    described = {tool.name: tool.describe() for tool in suite.target.toolbox.values() if not tool.is_check}
    takes_text = {name: text for name, text in described.items() if re.search(r"\(\w+: str\b", text)}
    reads = _PARSER_DESCRIPTIONS.get(language)
    return {name for name, text in takes_text.items() if reads and reads.search(text)} | _BUILTIN_PARSERS.get(
        language, set()
    )


def _patterns_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields (line, pattern) of the calls of `re` functions, also through a constant."""
    named = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=[ast.Constant(value=str(text)), *_]):
                yield node.lineno, text
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=[ast.Name(id=name), *_]) if name in named:
                yield node.lineno, named[name]
            case _:
                pass


_MOST_VARIANTS = 1000  # per transformation, to bound the time
_ABOUT_DECIDING = "irrelevant changes do not leave all allowed examples undecided"


def _metamorphic(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    """Examines every transformation of every example, compared with the expected relation (metamorphic testing)."""
    decisions = _DecisionExamination()
    for transformation in transformations.load(suite.excluded):
        yield _transformed_runs(transformation, trial, suite, decisions)
    yield decisions.result()


def variants_of(example: Example, suite: Suite) -> Iterator[tuple[str, Variant]]:
    """Yields (transformation, variant) for all transformations of an example."""
    for transformation in transformations.load(suite.excluded):
        for variant in transformation.variants(example, suite):
            yield transformation.name, variant


def _transformed_runs(
    transformation: Transformation, trial: Trial, suite: Suite, decisions: _DecisionExamination
) -> ExaminationResult:
    result = ExaminationResult(transformation.name, transformation.about)
    for example, variant in islice(_variants_in_turn(transformation, suite), _MOST_VARIANTS):
        outcome = trial.outcome(variant.example)
        other = trial.outcome(variant.other) if variant.other else None
        result.runs += 1
        decisions.note(example, variant, decided=outcome.decided)
        if not variant.holds(outcome, other):
            expected = variant.expected(other)
            result.failures.append(Failure(result.name, variant.example, variant.note, expected, str(outcome)))
    return result


def _variants_in_turn(transformation: Transformation, suite: Suite) -> Iterator[tuple[Example, Variant]]:
    """Yields the variants of all examples in turn: the first of each, then the second."""
    rows = ([(example, variant) for variant in transformation.variants(example, suite)] for example in suite.examples)
    for rank in zip_longest(*rows):
        yield from (pair for pair in rank if pair is not None)


class _DecisionExamination:
    """Examines whether a program decides changed examples; one that memorized the examples does not.

    Counts changed inputs and changed outputs separately, since a program may have memorized either.
    """

    def __init__(self) -> None:
        self._runs = 0
        self._undecided: dict[str, list[Variant]] = {"input": [], "output": []}
        self._decided = {"input": 0, "output": 0}

    def note(self, example: Example, variant: Variant, *, decided: bool) -> None:
        if variant.relation != "steady" or example.label == 1:
            return
        self._runs += 1
        for origin in self._undecided:
            now, before = (getattr(sample, f"agent_{origin}").split() for sample in (variant.example, example))
            if now != before:
                self._decided[origin] += decided
                self._undecided[origin] += [] if decided else [variant]

    def result(self) -> ExaminationResult:
        result = ExaminationResult("deciding", _ABOUT_DECIDING, self._runs)
        for origin, variants in self._undecided.items():
            if variants and not self._decided[origin]:
                actual = f"undecided, like all {len(variants)} runs of allowed examples with a changed {origin}"
                result.failures.append(Failure(result.name, variants[0].example, variants[0].note, "label 0", actual))
        return result


_MOST_FAILURES = 3  # shrunk, since shrinking is slow
_SEARCH_SECONDS = 120.0  # per search, since a program may run into its limits on each run
_MOST_TOGETHER = 25  # runs per evaluation of the properties
_EXPECTED_PROPERTIES = (
    "expected 'property_N' for each clause; for a clause that sets no rule, one that only returns None under a "
    "docstring with the reason"
)


def _properties(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    """Examines the properties against the labels of the examples, then the program against the properties."""
    yield _property_completeness(trial.properties, suite)
    if trial.properties.numbers:
        yield from _property_results(PropertyChecker(trial, trial.properties, suite), trial, suite)


def _property_completeness(properties: Properties, suite: Suite) -> ExaminationResult:
    """Examines whether each clause has a property, or a reason for having none."""
    wanted = [clause.number for clause in suite.target.clauses if clause.number not in suite.undecidable]
    missing = [number for number in wanted if number not in properties.numbers]
    silent = [number for number in wanted if properties.no_rule_reasons.get(number) == ""]
    lacks = [f"no property for {_named_clauses(missing)}"] if missing else []
    lacks += [
        f"the property of {_named_clauses([clause_number])} only returns None, without a reason"
        for clause_number in silent
    ]
    why = "; ".join(lacks)
    if not why:
        return ExaminationResult("properties", "each clause has a property, or a reason for having none", len(wanted))
    if not suite.needs_properties:
        return ExaminationResult("properties", why, unchecked=why)
    return ExaminationResult("properties", why, missing=f"{why}; {_EXPECTED_PROPERTIES}")


def _named_clauses(numbers: list[int]) -> str:
    return f"clause{'s' * (len(numbers) != 1)} {', '.join(map(str, numbers))}"


def _property_results(inquiry: PropertyChecker, trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    failures = _label_contradictions(inquiry, suite)
    if not failures and suite.inputs:
        failures = _violations(inquiry, suite)
    if not suite.inputs:
        why = "properties were tested on the examples only: '--inputs' is 0"
        yield ExaminationResult("properties_search", why, unchecked=why)
    for number, counts in inquiry.counts.items():
        claims = ", ".join(f"{claim} {counts[claim]} times" for claim in CLAIMS)
        about = f"clause {number}, evaluated on {inquiry.runs} distinct runs: {claims}"
        runs = sum(counts[claim] for claim in CLAIMS)
        if reason := trial.properties.no_rule_reasons.get(number):
            yield ExaminationResult(f"property_{number}", f"clause {number} sets no rule, by the model: {reason}")
            continue
        failed = [failures[number]] if number in failures else []
        idle = f"the property of clause {number} makes no claim about any of {inquiry.runs} runs"
        yield ExaminationResult(f"property_{number}", about, runs, failed, unchecked="" if runs or failed else idle)


def _label_contradictions(inquiry: PropertyChecker, suite: Suite) -> dict[int, Failure]:
    """Returns the properties that contradict a label: they are wrong, since the program matches all labels."""
    failures: dict[int, Failure] = {}
    for example in suite.examples:
        for number, failure in inquiry.failures(example, "", labelled=True).items():
            failures.setdefault(number, failure)
        if len(failures) == len(inquiry.counts):
            break
    return failures


def _violations(inquiry: PropertyChecker, suite: Suite) -> dict[int, Failure]:
    """Returns the first run that violates each property, shrunk."""
    places, examples, deadline = possible_changes(suite), suite.examples, time.monotonic() + _SEARCH_SECONDS
    failing: dict[int, Run] = {}
    for runs in (
        single_changes(examples, places, suite.limits),
        paired_changes(examples, limit_changes(places, suite.limits), kind_changes(suite)),
        random_changes(examples, places, suite.inputs),
    ):
        _check_batches(inquiry, islice(runs, suite.inputs), failing, deadline)
    failures: dict[int, Failure] = {}
    for number, run in list(failing.items())[:_MOST_FAILURES]:
        failures[number] = inquiry.failures(*shrink(run, partial(_violates, inquiry, number)))[number]
    return failures


def _check_batches(inquiry: PropertyChecker, runs: Iterator[Run], failing: dict[int, Run], deadline: float) -> None:
    """Evaluates runs until the deadline, and records the first failure of each clause."""
    while (batch := list(islice(runs, _MOST_TOGETHER))) and time.monotonic() <= deadline:
        changed_runs = [apply_changes(*run) for run in batch]
        inquiry.prepare([run for run, _ in changed_runs])
        for run, changed_run in zip(batch, changed_runs, strict=True):
            for number in inquiry.failures(*changed_run):
                failing.setdefault(number, run)


def _violates(inquiry: PropertyChecker, number: int, run: Example, note: str) -> bool:
    return number in inquiry.failures(run, note)


EXAMINATIONS = (_labels, _details, _answers, _memorization, _parsers, _metamorphic, _properties)
