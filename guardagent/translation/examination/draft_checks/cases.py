"""Cases: each rule has boundary cases of every kind, and gives what they expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from guardagent.batch.survivors import concerns_the_end
from guardagent.translation.drafting.draft import Problem
from guardagent.translation.examination.examined import ExaminedDraft, ExaminedRule, problem_of
from guardagent.translation.examination.records import JudgedCase, disagreement, judged_cases

_FEWEST = 4
_TOP = ("now", "principal", "user_confirmed", "state", "facts", "context")


def check(examined: ExaminedDraft) -> Iterator[Problem]:
    """A wrong case is fatal: either the rule or the case is wrong. A missing one is not."""
    for rule in examined.rules:
        yield from _wrong(rule)
        yield from _missing(rule)
    for draft in examined.draft.rules:
        ids = Counter(repr(one.get("id")) for one in draft.cases if isinstance(one, dict))
        for name in (name for name, count in ids.items() if count > 1):
            yield problem_of(draft, "case", f"two cases have the id {name:.100}; expected each id once", fatal=True)


def _wrong(rule: ExaminedRule) -> Iterator[Problem]:
    for one in rule.cases:
        if problem := one.problem or disagreement(rule.draft.id, one):
            yield rule.problem("case", problem, example=one.text, fatal=True)


def _missing(rule: ExaminedRule) -> Iterator[Problem]:
    """The kinds of cases that a rule lacks. One that reads no value has no limit."""
    kinds = {} if rule.is_ban else {"allowed": "is allowed (label 0)"}
    is_late = concerns_the_end(rule.policies, rule.draft.id)
    how = "violates it at the end: the calls of a conversation under 'events'" if is_late else "violates it"
    kinds["violating"] = f"{how} (rules {[rule.draft.id]})"
    found = {one.outcome for one in rule.cases if one.verdict is not None}
    lacking = [text for kind, text in kinds.items() if kind not in found]
    reads_values = bool(rule.places.reads) or rule.places.reads_time
    fewest = _FEWEST if reads_values and not is_late else len(kinds)
    if len(rule.cases) < fewest:
        lacking.append(f"stands on either side of each limit; expected at least {fewest} cases, got {len(rule.cases)}")
    if lacking:
        yield rule.problem("case", f"the cases lack one that {', one that '.join(lacking)}")
    if "unknown" not in found and (unknown := next(_unknown_cases(rule), None)) is not None:
        text = "the cases lack one that is denied because a value is unknown (label 1 with rules []), such as this one"
        yield rule.problem("case", text, example=unknown.text)


def _unknown_cases(rule: ExaminedRule) -> Iterator[JudgedCase]:
    """Yields the variants of cases, each without one value, in which something is unknown."""
    for record in rule.draft.cases:
        if isinstance(record, Mapping):
            variants = list(_without_a_value(record))
            yield from (one for one in judged_cases(rule.policies, rule.draft.id, variants) if one.outcome == "unknown")


def _without_a_value(record: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    unknown = {**record, "id": "something is unknown", "label": 1, "rules": []}
    proposed = record.get("proposed")
    if isinstance(proposed, Mapping) and isinstance(args := proposed.get("args"), Mapping):
        yield from ({**unknown, "proposed": {**proposed, "args": one}} for one in _without_a_key(args))
    for place in ("facts", "context", "state"):
        if isinstance(values := record.get(place), Mapping):
            yield from ({**unknown, place: one} for one in _without_a_key(values))
    yield from ({key: value for key, value in unknown.items() if key != gone} for gone in _TOP if gone in record)


def _without_a_key(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for gone in values:
        yield {key: value for key, value in values.items() if key != gone}
