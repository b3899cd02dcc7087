"""Cases and traces with an expected verdict. A trace is judged to its end, for rules that only the end can violate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent.batch.audit import judge_trace
from guardagent.batch.cases import judge_case, read_expectation
from guardagent.batch.json_object import JsonObject, KeyType
from guardagent.batch.records import Case, Trace, read_trace
from guardagent.errors import ContentError
from guardagent.policy.policies import Policies
from guardagent.types import Event, Verdict

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
    return tuple(one.event for one in expected.trace.steps)


def judge_expected(policies: Policies, expected: Expectation) -> Verdict:
    """Judges the proposed call of a case, or the whole of a trace with its end."""
    if isinstance(expected, Case):
        return judge_case(policies, expected)
    return judge_trace(policies, expected.trace)
