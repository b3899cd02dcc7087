"""Missing values: rules that allow a forbidden call as soon as a fact or a part of the state is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from guardagent.translation.drafting.draft import Problem
from guardagent.translation.examination.examined import ExaminedDraft, ExaminedRule
from guardagent.translation.examination.records import judged_cases

NEVER_FATAL = True
_PLACES = ("state", "facts", "context")
_DEEPEST = 3  # keys within keys
_MOST = 20  # variants of one case
_TESTS = "known"  # the only function that tells an unknown value from another one


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """One for each rule: whoever leaves the value out gets around the rule."""
    for rule in examined.rules:
        if _TESTS in str(rule.draft.rule):
            found = next(_allowed(rule), None)
            if found is not None:
                name, example = found
                text = (
                    f"the rule denies a call, and allows it if {name} is missing; a missing value has to deny, "
                    "unless the document says otherwise"
                )
                yield rule.problem("missing_value", text, example=example)


def _allowed(rule: ExaminedRule) -> Iterator[tuple[str, str]]:
    """Yields the values without which a case that violates the rule is allowed, with the case."""
    for case, record in zip(rule.cases, rule.draft.cases, strict=False):
        if case.outcome == "violating" and isinstance(record, Mapping):
            variants = list(_without_a_value(record))
            judged = judged_cases(rule.policies, rule.draft.id, [one for _, one in variants])
            for (name, _), one in zip(variants, judged, strict=True):
                if one.verdict is not None and one.outcome == "allowed":
                    yield name, one.text


def _without_a_value(record: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for place in _PLACES:
        for path, left in islice(_without_a_key(record.get(place), _DEEPEST), _MOST):
            name = ".".join(map(str, path))
            shown = f"'state.{name}'" if place == "state" else f"the fact {name!r}"
            yield shown, {**record, "id": f"without {name}", place: left, "label": 1, "rules": []}


def _without_a_key(values: Any, depth: int) -> Iterator[tuple[tuple[Any, ...], dict[Any, Any]]]:
    """Yields the paths of keys in mappings, each with a copy of the values that lacks it."""
    for gone, inner in values.items() if isinstance(values, Mapping) and depth else ():
        yield (gone,), {key: value for key, value in values.items() if key != gone}
        yield from (((gone, *path), {**values, gone: left}) for path, left in _without_a_key(inner, depth - 1))
