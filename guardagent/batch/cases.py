"""Judges cases and traces, and compares their verdicts with the expected ones.

A case ends with a proposed call, which is judged. A trace is judged to its end, for rules that only the end can
violate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent.batch.audit import judge_trace
from guardagent.batch.json_object import JsonObject, KeyType
from guardagent.batch.records import Case, Trace, read_case, read_trace
from guardagent.errors import ContentError, name_hint
from guardagent.policy.policies import Policies
from guardagent.session.counters import new_counters
from guardagent.session.session import Session
from guardagent.types import Event, Verdict

if TYPE_CHECKING:
    from guardagent.batch.results import Result


def session_of(policies: Policies, case: Case) -> Session:
    """A session in which the history of a case has happened.

    Counters across conversations begin at zero, and the history counts.
    """
    session = policies.session(
        state=case.state,
        facts=case.facts,
        clock=lambda: case.now,
        counters=new_counters(policies),
        principal=case.principal,
        on_difference=False,
    )
    for event in case.history:
        session.observe(event, judge=False)
    return session


def judge_case(policies: Policies, case: Case) -> Verdict:
    """Judges the proposed call alone: violations in the history are not reported again."""
    session = session_of(policies, case)
    return session.check(case.proposed.tool, case.proposed.args, reserve=False)


def read_expectation(text: str, path: Path | str, line: int, failed_output: Any = None) -> Case:
    """Reads a case that has an expectation.

    Raises:
        ContentError: the line is not a case, or expects nothing.
    """
    case = read_case(text, path, line, failed_output)
    if case.label is None and case.rules is None:
        raise ContentError("has no expectation; expected 'label', 'rules' or both", path, line)
    return case


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the expectation of a case and its verdict.

    Attributes:
        label: (expected, found); None if they are equal, or no label was expected.
        missing: rules that were expected but not violated.
        unexpected: rules that were violated but not expected.
    """

    label: tuple[int, int] | None = None
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.label or self.missing or self.unexpected)


def difference(result: Result) -> Difference:
    """Compares a verdict with the expectation of its case."""
    label = result.expected_label
    rules, expected = set(result.rules), set(result.rules if result.expected_rules is None else result.expected_rules)
    return Difference(
        None if label in (None, result.label) else (int(label or 0), result.label),
        tuple(sorted(expected - rules)),
        tuple(sorted(rules - expected)),
    )


def unknown_rule_hint(rule: str, known: Iterable[str]) -> str:
    """A hint that no policy has this id, with the nearest id; empty if one has it."""
    names = list(known)
    return "" if rule in names else f" (no such policy{name_hint(rule, names)})"


# --- cases and traces with an expected verdict

_LABEL = {"label": KeyType(int, "0 or 1"), "rules": KeyType(list, "a list of the ids of policies")}
_OF_CASES = ("proposed", "history", "now", "context", "user_confirmed")


@dataclass(frozen=True, slots=True)
class ExpectedTrace:
    """A trace with its expectation, as `label` and `rules` of a case."""

    trace: Trace
    label: int | None = None
    rules: tuple[str, ...] | None = None

    @property
    def id(self) -> str | int:
        return self.trace.id


Expectation = Case | ExpectedTrace


def read_expected(text: str, path: Path | str, line: int, failed_output: Any = None) -> Expectation:
    """Reads a case, or a trace with `events` instead of `proposed`, that has an expectation; as `read_expectation`.

    Raises:
        ContentError: the line is neither, or expects nothing.
    """
    record = JsonObject.of_line(text, path, line, _LABEL)
    if "events" not in record.values:
        return read_expectation(text, path, line, failed_output)
    if lost := [key for key in _OF_CASES if key in record.values]:
        raise ContentError(f"has 'events' and {lost[0]!r}, which only a case has; expected one of them", path, line)
    label, rules = record.values.get("label"), record.strings("rules")
    if label not in (None, 0, 1):
        raise record.wrong("label", label, "0 or 1")
    if label is None and rules is None:
        raise ContentError("has no expectation; expected 'label', 'rules' or both", path, line)
    return ExpectedTrace(read_trace(text, path, line, failed_output), label, rules)


def calls_of(expected: Expectation) -> tuple[Event, ...]:
    """Returns the events of a case or trace, a proposed call as the last one."""
    if isinstance(expected, Case):
        return (*expected.history, expected.proposed)
    return tuple(step.event for step in expected.trace.steps)


def judge_expected(policies: Policies, expected: Expectation) -> Verdict:
    """Judges the proposed call of a case, or the whole of a trace with its end."""
    if isinstance(expected, Case):
        return judge_case(policies, expected)
    return judge_trace(policies, expected.trace)
