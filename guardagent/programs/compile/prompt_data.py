"""Prompt data of a candidate: the examples, and the runs that its last version failed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from guardagent.programs.answers import prose
from guardagent.programs.compile.examinations_base import ExaminationResult, Failure
from guardagent.programs.compile.examples import Example
from guardagent.types import thaw

_FAILURES = 4  # shown at least; more if they are short
_FAILURE_WORDS = 800
_FENCES = 16  # words around the run of one failure
_EXPLANATION_WORDS = 200
_CLAIM = re.compile(r"property_\d+ says (deny|allow)\b")

Hide = Callable[[Any], Any]


def example_data(example: Example, label: str, hide: Hide) -> dict[str, str]:
    """Returns the prompt data of one labelled run."""
    return {**_run(example, hide), "label": label}


def failures_data(tried: Sequence[ExaminationResult], examples: Sequence[Example], hide: Hide) -> list[dict[str, str]]:
    """Returns the prompt data of the shown failures, without repeating a shown example."""
    above = {one.id for one in examples}
    return [
        {
            **({} if _as_it_is(failure, above) else _run(failure.example, hide)),
            "changed": hide(f"{failure.test}: {failure.note}") if failure.note else "",
            "expected": _expected(failure),
            "given": hide(failure.actual),
        }
        for failure in shown_failures(tried)
    ]


def failure_places(tried: Sequence[ExaminationResult], examples: Sequence[Example]) -> list[str]:
    """Returns for each shown failure a reference to the same shown example, if any."""
    numbers = {one.id: number for number, one in enumerate(examples, start=1)}
    shown = shown_failures(tried)
    return [f", which is example {numbers[one.example.id]}" if _as_it_is(one, numbers) else "" for one in shown]


def hidden_failures(tried: Sequence[ExaminationResult]) -> str:
    """Returns the number of failures, and the kinds of those not shown."""
    total, shown = sum(len(one.failures) for one in tried), shown_failures(tried)
    if total == len(shown):
        return f" ({total} in all)"
    more = Counter(one.test for row in tried for one in row.failures) - Counter(one.test for one in shown)
    kinds = ", ".join(f"{count} of {test}" for test, count in more.items())
    return f" ({total} in all; {total - len(shown)} are left out here: {kinds})"


def shown_failures(tried: Sequence[ExaminationResult]) -> list[Failure]:
    """Selects failures within the word limit, of as many kinds of test as possible."""
    rows = [one.failures for one in tried]
    turns = [row[at] for at in range(max(map(len, rows), default=0)) for row in rows if at < len(row)]
    words = accumulate(_FENCES + len(f"{one.example.agent_input} {one.example.agent_output}".split()) for one in turns)
    return [one for at, one in enumerate(turns) if next(words) <= _FAILURE_WORDS or at < _FAILURES]


def explanation(answer: str) -> str:
    """Returns the prose of an answer, truncated."""
    words = prose(answer).split(" ")
    return " ".join(words[:_EXPLANATION_WORDS]) + (" …" if len(words) > _EXPLANATION_WORDS else "")


def _run(example: Example, hide: Hide) -> dict[str, str]:
    facts = thaw(example.facts)
    return {
        "agent_input": hide(example.agent_input),
        "agent_output": hide(example.agent_output),
        "facts": hide(json.dumps(facts, ensure_ascii=False, default=str)) if facts else "",
    }


def _as_it_is(failure: Failure, above: Any) -> bool:
    return not failure.note and failure.example.id in above


def _expected(failure: Failure) -> str:
    """Returns the expected outcome, attributed to the property if it is a claim, since a property may be wrong."""
    claim = _CLAIM.match(failure.note)
    return f"{claim[1]}, as the property says: {failure.expected}" if claim else failure.expected
