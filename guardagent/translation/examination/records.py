"""The boundary cases of a rule: read, and judged by the rule alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from guardagent.batch.expectations import Expectation, judge_expected, read_expected
from guardagent.batch.records import Case
from guardagent.errors import InputError, error_text
from guardagent.policy.policies import Policies
from guardagent.types import Verdict

Outcome = Literal["allowed", "violating", "unknown"]
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A case of a rule.

    Attributes:
        text: the record, shortened.
        case: None if the record is no case or trace with an expectation.
        verdict: of the rule; None without a case.
        problem: why the record is no case.
    """

    text: str
    case: Expectation | None = None
    verdict: Verdict | None = None
    problem: str = ""

    @property
    def outcome(self) -> Outcome:
        """Whether the call violates a rule, or is denied only because something is unknown."""
        if self.verdict is None or not (self.verdict.rules or self.verdict.errors):
            return "allowed"
        return "violating" if self.verdict.rules else "unknown"


def judged_cases(policies: Policies, rule: str, records: Iterable[Any]) -> Sequence[JudgedCase]:
    """Judges the cases of a rule; nothing in a record ends in an error."""
    return [_judged(policies, f"{rule}: cases[{at}]", one) for at, one in enumerate(records)]


def disagreement(rule: str, one: JudgedCase) -> str:
    """The reason that a case does not hold under its rule; empty if it holds."""
    case, verdict = one.case, one.verdict
    if case is None or verdict is None:
        return ""
    name = f"case {case.id!r:.100}"
    if others := [other for other in case.rules or () if other != rule]:
        return f"{name} names {others[0]!r:.100}, but judges this rule alone; expected rules {[rule]} or []"
    if one.outcome == "unknown" and expects_violation(case, rule):
        return (
            f"{name} expects a violation, but the call is denied only because something is unknown: "
            f"{'; '.join(verdict.errors):.300}; give the case the missing values, or expect rules []"
        )
    if case.label not in (None, verdict.label) or (case.rules is not None and set(case.rules) != set(verdict.rules)):
        return f"{name}: expected {_expectation(case)}, got {_shown(verdict)}; the rule or the case is wrong"
    return ""


def is_first(case: Expectation | None) -> TypeGuard[Case]:
    """Whether a case proposes a call without earlier ones."""
    return isinstance(case, Case) and not case.history


def expects_violation(case: Expectation, rule: str) -> bool:
    """Whether a case expects that its rule is violated."""
    return case.label == 1 if case.rules is None else rule in case.rules


def _expectation(case: Expectation) -> str:
    label = [] if case.label is None else [f"label {case.label}"]
    return " with ".join([*label, *([] if case.rules is None else [f"rules {list(case.rules)}"])])


def _shown(verdict: Verdict) -> str:
    reasons = "; ".join((*verdict.reasons, *verdict.errors))
    because = f", because: {reasons:.300}" if reasons else ""
    return f"label {verdict.label} with rules {list(verdict.rules)}{because}"


def _judged(policies: Policies, place: str, record: Any) -> JudgedCase:
    text = ""
    try:
        text = json.dumps(record, ensure_ascii=False, allow_nan=False)
        text.encode()  # no half of a surrogate pair
        case = read_expected(text, place, 0, policies.failed_output)
        return JudgedCase(_shortened(text), case, judge_expected(policies, case))
    except InputError as error:
        return JudgedCase(_shortened(text), problem=str(error))
    except Exception as error:  # noqa: BLE001 - a record can hold anything, also what JSON cannot
        shown = _shortened(text or repr(record) if not isinstance(error, RecursionError) else "")
        return JudgedCase(shown, problem=f"{place}: is no JSON record: {error_text(error):.200}")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]} …"
