"""Judges the call that a case proposes, and compares the verdict with what the case expects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guardagent.batch.records import Case, read_case
from guardagent.errors import ContentError, name_hint
from guardagent.policy.policies import Policies
from guardagent.types import Verdict

if TYPE_CHECKING:
    from pathlib import Path

    from guardagent.batch.job import Result


def judge_case(policies: Policies, case: Case) -> Verdict:
    """The verdict on the proposed call alone: what the history violates is not reported again."""
    session = policies.session(state=case.state, facts=case.facts)
    for event in case.history:
        session.observe(event, judge=False)
    return session.check(case.proposed.tool, case.proposed.args, reserve=False)


def read_expectation(text: str, path: Path | str, line: int, failed_output: Any = None) -> Case:
    """A case that says what it expects.

    Raises:
        ContentError: it is no case, or expects nothing.
    """
    case = read_case(text, path, line, failed_output)
    if case.label is None and case.rules is None:
        raise ContentError("expects nothing; expected a label, rules, or both", path, line)
    return case


@dataclass(frozen=True, slots=True)
class Difference:
    """What a case expects beside what came.

    Attributes:
        label: (expected, found); None where they are the same, or nothing was expected.
        missing, unexpected: rules that were expected and not found, and the other way round.
    """

    label: tuple[int, int] | None = None
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.label or self.missing or self.unexpected)


def difference(result: Result) -> Difference:
    """Where a verdict is not what its case expects."""
    label = result.expected_label
    found, expected = set(result.rules), set(result.rules if result.expected_rules is None else result.expected_rules)
    return Difference(
        None if label in (None, result.label) else (int(label or 0), result.label),
        tuple(sorted(expected - found)),
        tuple(sorted(found - expected)),
    )


def unknown_rule_hint(rule: str, known: Iterable[str]) -> str:
    """Says that no policy has this id, and which was probably meant."""
    names = list(known)
    return "" if rule in names else f" (no such policy{name_hint(rule, names)})"
