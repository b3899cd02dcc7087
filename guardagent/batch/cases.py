"""Judges the proposed call of a case, and compares the verdict with the expected one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guardagent.batch.records import Case, read_case
from guardagent.errors import ContentError, name_hint
from guardagent.policy.policies import Policies
from guardagent.session.counters import new_counters
from guardagent.session.session import Session
from guardagent.types import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from guardagent.batch.job import Result


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
    found, expected = set(result.rules), set(result.rules if result.expected_rules is None else result.expected_rules)
    return Difference(
        None if label in (None, result.label) else (int(label or 0), result.label),
        tuple(sorted(expected - found)),
        tuple(sorted(found - expected)),
    )


def unknown_rule_hint(rule: str, known: Iterable[str]) -> str:
    """A hint that no policy has this id, with the nearest id; empty if one has it."""
    names = list(known)
    return "" if rule in names else f" (no such policy{name_hint(rule, names)})"
