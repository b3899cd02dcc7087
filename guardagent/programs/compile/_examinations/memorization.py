"""Examines memorization: string literals from single examples, for at least half of the examples."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent._support import syntax
from guardagent.programs.compile.citations import citations_in
from guardagent.programs.compile.examinations_base import ExaminationResult, Failure
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.trial import Trial

ORDER = 15

ABOUT = "the program does not memorize the examples: it cites single ones for less than half of them"

_LENGTH = 12  # characters; shorter literals are often words of a rule
_FEWEST = 3  # examples; one of two would be half already


def examine(trial: Trial, suite: Suite) -> Iterator[ExaminationResult]:
    result = ExaminationResult("by_heart", ABOUT, len(suite.examples))
    quotes = citations_in(syntax.parse(trial.program), suite, _LENGTH)
    by_example = {example.id: (node, text) for node, text, example in quotes}
    if len(suite.examples) >= _FEWEST and 2 * len(by_example) >= len(suite.examples):
        for example in suite.examples:
            if example.id in by_example:
                node, text = by_example[example.id]
                actual = f"line {node.lineno} contains {text[:60]!r}"
                expected = "no literal from this example only"
                result.failures.append(Failure(result.name, example, "as it is", expected, actual))
    yield result
