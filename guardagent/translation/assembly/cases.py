"""The cases of an assembled policy: each has the verdict of the whole policy as its expectation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from guardagent._support.execution import timed_verdict
from guardagent.batch.audit import judge_trace
from guardagent.batch.cases import judge_case
from guardagent.batch.records import read_case, read_trace
from guardagent.errors import InputError
from guardagent.policy.policies import Policies
from guardagent.translation.drafts import Problem, RuleDraft
from guardagent.types import Verdict

_MOST_SHOWN = 2_000


@dataclass(frozen=True, slots=True)
class CaseFiles:
    """The cases of a policy as JSON Lines.

    Attributes:
        cases: records with a proposed call, for `guardagent test`.
        traces: records with events, for `guardagent audit`.
        problems: cases that the whole policy does not judge as their rule does.
    """

    cases: str
    traces: str
    problems: tuple[Problem, ...]


def case_files(rules: Sequence[RuleDraft], policies: Policies | None) -> CaseFiles:
    """Judges the cases of rules.

    Args:
        rules: the rules; their cases have the expectation of the rule alone.
        policies: the whole policy; without it, there are no cases.
    """
    lines: dict[bool, list[str]] = {True: [], False: []}
    problems = []
    for rule, record in _named(rules) if policies else ():
        assert policies is not None
        try:
            verdict = _verdict(policies, record)
            line = _line({**record, "label": verdict.label, "rules": list(verdict.rules)})
        except (InputError, TypeError, ValueError, RecursionError) as error:
            problems.append(_problem(rule, f"the case {record['id']!r} cannot be read: {error}"))
            continue
        lines["events" in record].append(f"{line}\n")
        problems += [_problem(rule, one, line) for one in _differences(rule, record, verdict)]
    return CaseFiles("".join(lines[False]), "".join(lines[True]), tuple(problems))


def _named(rules: Sequence[RuleDraft]) -> Iterator[tuple[RuleDraft, dict[str, Any]]]:
    """Yields the cases with unique ids."""
    ids: set[str] = set()
    for rule in rules:
        for record in rule.cases:
            name = f"{rule.id}/{str(record.get('id') or 'case').removeprefix(f'{rule.id}/')}"
            found = next(one for at in count(1) if (one := name if at == 1 else f"{name} ({at})") not in ids)
            ids.add(found)
            yield rule, {**record, "id": found}


def _verdict(policies: Policies, record: Mapping[str, Any]) -> Verdict:
    read: Any = read_trace if "events" in record else read_case
    judge: Any = judge_trace if "events" in record else judge_case
    case = read(_line(record), "cases", 1, policies.failed_output)
    return timed_verdict(partial(judge, policies, case))


def _line(record: Mapping[str, Any]) -> str:
    text = json.dumps(record, ensure_ascii=False, allow_nan=False)
    text.encode()  # half of a surrogate pair raises here
    return text


def _differences(rule: RuleDraft, record: Mapping[str, Any], verdict: Verdict) -> Iterator[str]:
    """Yields how the verdict contradicts the expectation of the rule alone. Other rules may also deny."""
    label, expected = record.get("label"), record.get("rules")
    expected = expected if isinstance(expected, list | tuple) else ()
    found = f"the whole policy finds label {verdict.label} and violations of {', '.join(verdict.rules) or 'no rule'}"
    if rule.id in expected and rule.id not in verdict.rules:
        yield f"the case {record['id']!r} expects a violation of the rule, but {found}"
    elif rule.id in verdict.rules and rule.id not in expected and (label == 0 or "rules" in record):
        yield f"the case {record['id']!r} expects no violation of the rule, but {found}"
    elif label == 1 and verdict.label == 0:
        yield f"the case {record['id']!r} expects that the call is denied, but {found}"


def _problem(rule: RuleDraft, message: str, example: str = "") -> Problem:
    return Problem("case", message, rule.id, rule.sentences, example[:_MOST_SHOWN])
