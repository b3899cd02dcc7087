"""Files of cases, which pytest runs as tests, and the rules that these cases cover.

A case *violates* a rule that is among the violated rules of its verdict. It *satisfies* a rule that judges its proposed
call (it names the tool, or a label of the call) and is neither violated nor undecided. A rule that only the end of a
conversation can violate, such as `after`, cannot be violated by a case: only its satisfaction counts. A rule that
denies each call that it judges, such as `G !tool:wipe`, cannot be satisfied: only its violation counts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from guardagent.batch.cases import Difference, difference, judge_case, read_expectation, unknown_rule_hint
from guardagent.batch.pipeline import Job, judge_line
from guardagent.batch.records import InputLine, LineReader, open_bytes
from guardagent.batch.results import Result
from guardagent.errors import GuardError
from guardagent.policy.evaluation.history_index import AnyTool
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.lint.target import subject_of
from guardagent.policy.load import load_policies
from guardagent.policy.monitors.eventual import ExistsMonitor, ResponseMonitor
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.policies import Policies
from guardagent.testing.pytest_plugin import POLICY, SUFFIX
from guardagent.types import EMPTY, Event


@dataclass(slots=True)
class PolicyCoverage:
    """The coverage of one policy.

    Attributes:
        rules: the ids of all rules.
        end_only: the rules that only the end of a conversation can violate.
        bans: the rules that no call that they judge satisfies.
        violated, satisfied: rules with a case.
        cases: the number of cases.
    """

    rules: tuple[str, ...]
    end_only: frozenset[str]
    bans: frozenset[str] = frozenset()
    violated: set[str] = field(default_factory=set)
    satisfied: set[str] = field(default_factory=set)
    cases: int = 0

    @property
    def never_violated(self) -> list[str]:
        return [rule for rule in self.rules if rule not in self.violated and rule not in self.end_only]

    @property
    def never_satisfied(self) -> list[str]:
        return [rule for rule in self.rules if rule not in self.satisfied and rule not in self.bans]

    def lines(self, policy: str) -> Iterator[str]:
        """Yields a summary line, and one for each kind of gap."""
        covered = len(set(self.rules) - set(self.never_violated) - set(self.never_satisfied))
        yield f"{policy}: {covered} of {len(self.rules)} rules covered by {self.cases} cases"
        for what, rules in (("never violated", self.never_violated), ("never satisfied", self.never_satisfied)):
            if rules:
                yield f"  {what} by a case: {', '.join(rules)}"


class RuleCoverage:
    """The coverage of all policies of a run."""

    def __init__(self) -> None:
        self.policies: dict[str, PolicyCoverage] = {}

    def add(self, content: dict[str, Any]) -> None:
        """Adds the result of `covered_rules`."""
        known = PolicyCoverage(tuple(content["rules"]), frozenset(content["end_only"]), frozenset(content["bans"]))
        policy = self.policies.setdefault(content["policy"], known)
        policy.violated.update(content["violated"])
        policy.satisfied.update(content["satisfied"])
        policy.cases += 1

    def clear(self) -> None:
        self.policies.clear()

    @property
    def is_full(self) -> bool:
        return not any(policy.never_violated or policy.never_satisfied for policy in self.policies.values())

    def lines(self) -> list[str]:
        return [
            line for policy, policy_coverage in sorted(self.policies.items()) for line in policy_coverage.lines(policy)
        ]


COVERAGE = RuleCoverage()
"""The coverage of this process's run."""


def covered_rules(policies: Policies, path: str, proposed: Event, verdict: dict[str, Any]) -> dict[str, Any]:
    """Returns what a case covers, as JSON.

    Args:
        policies: the policy.
        path: its file, for people.
        proposed: the proposed call of the case.
        verdict: the verdict as JSON.
    """
    call = SessionCall(proposed.tool, proposed.args)
    judging = {policies.rule_of[number].id for number, _ in policies.applicability(call).monitors}
    judging.update(source.id for source, _ in policies.requests)
    undecided = {rule for rule in judging if any(error.startswith(f"{rule}: ") for error in verdict["errors"])}
    unjudged = any(not any(error.startswith(f"{rule}: ") for rule in policies.ids) for error in verdict["errors"])
    satisfied = set() if unjudged else judging - undecided - set(verdict["rules"])
    return {
        "policy": path,
        "rules": list(policies.ids),
        "end_only": sorted(_end_only(policies)),
        "bans": sorted(_bans(policies)),
        "violated": sorted(set(verdict["rules"])),
        "satisfied": sorted(satisfied),
    }


def _bans(policies: Policies) -> Iterator[str]:
    target = subject_of(policies)
    for rule in policies.rules:
        steps = [monitor for monitor in rule.monitors if isinstance(monitor, PropositionalMonitor) and rule.simple]
        calls = (SessionCall(tool, EMPTY) for tool in rule.tools - target.banned_by(rule))
        permitted = any(all(monitor.permits(call) for monitor in steps) for call in calls)
        if rule.tools and not permitted and not isinstance(rule.tools, AnyTool):
            yield rule.id


def _end_only(policies: Policies) -> Iterator[str]:
    for rule in policies.rules:
        if not any(_can_be_violated_by_a_call(monitor) for monitor in rule.monitors):
            yield rule.id


def _can_be_violated_by_a_call(monitor: Any) -> bool:
    if isinstance(monitor, PropositionalMonitor):
        return any(monitor.automaton.violated)
    return not isinstance(monitor, ExistsMonitor | ResponseMonitor)


_LABELS = ("0 (may proceed)", "1 (may not)")
_LOADED = pytest.StashKey[dict[Path, Policies]]()


class CaseFailedError(Exception):
    """A case that is unreadable, or whose verdict is not the expected one. Its message is all that people read."""


class CasesFile(pytest.File):
    """A file of cases."""

    def collect(self) -> Iterator[CaseItem]:
        """Yields a test for each line.

        Raises:
            CollectError: there is no policy, or it is invalid, or the file has no cases.
        """
        try:
            path = self._policy_path()
            policies = self._policies(path)
            with open_bytes(self.path) as stream:
                lines = [line for chunk in LineReader(stream).chunks() for line in chunk.lines]
        except GuardError as error:
            raise self.CollectError(str(error)) from None
        if not lines:
            raise self.CollectError(f"{self.path}: holds no cases; expected one JSON object per line")
        names: set[str] = set()
        for line in lines:
            name = _name_of(line)
            name = f"line {line.number}" if name is None else f"{name} (line {line.number})" if name in names else name
            names.add(name)
            yield CaseItem.from_parent(self, name=name, line=line, policies=policies, policy=path)

    def _policies(self, path: Path) -> Policies:
        loaded = self.config.stash.setdefault(_LOADED, {})
        if path not in loaded:
            loaded[path] = load_policies(path, model=os.environ.get("GUARDAGENT_MODEL") or None)
        return loaded[path]

    def _policy_path(self) -> Path:
        """`shop.yaml` for `shop.cases.jsonl` and `shop.refunds.cases.jsonl`; otherwise that of the ini-file."""
        stem = self.path.name.removesuffix(SUFFIX)
        while stem:
            for suffix in (".yaml", ".yml"):
                if (name := self.path.with_name(stem + suffix)).is_file():
                    return name
            stem = stem.rpartition(".")[0]
        named = self.config.getini(POLICY)
        if not named:
            expected = self.path.with_name(self.path.name.split(".")[0] + ".yaml")
            raise self.CollectError(
                f"{self.path}: has no policy; expected {expected.name!r} beside it, or {POLICY!r} in the ini-file; "
                "'-p no:guardagent' switches the plug-in off"
            )
        return Path(self.config.inipath.parent if self.config.inipath else self.config.rootpath) / str(named)


class CaseItem(pytest.Item):
    """One case as a test."""

    def __init__(self, *, line: InputLine, policies: Policies, policy: Path, **options: Any) -> None:
        super().__init__(**options)
        self._line, self._policies, self._policy = line, policies, policy
        self.coverage: dict[str, Any] | None = None

    def runtest(self) -> None:
        """Judges the case as `guardagent test` does.

        Raises:
            CaseFailedError: the line is not a case, or the verdict is not the expected one.
        """
        job = Job(str(self.path), partial(load_policies, self._policy), read_expectation, judge_case)
        result = judge_line(job, self._policies, self._line)
        if result.error:
            raise CaseFailedError(result.error)
        case = read_expectation(self._line.text(self.path), self.path, self._line.number)
        path = os.path.relpath(self._policy, self.config.rootpath)
        self.coverage = covered_rules(self._policies, path, case.proposed, json.loads(result.row))
        if problem := difference(result):
            raise CaseFailedError("\n".join(self._message(result, problem)))

    def _message(self, result: Result, difference: Difference) -> Iterator[str]:
        row = json.loads(result.row)
        yield f"{self.path}:{self._line.number}: case {str(row['id'])!r} differs from its expectation"
        if difference.label is not None:
            yield f"  label: expected {_LABELS[difference.label[0]]}, got {_LABELS[difference.label[1]]}"
        else:
            yield f"  label: {_LABELS[result.label]}"
        for rule in difference.missing:
            yield f"  rule {rule!r}: expected to be violated{unknown_rule_hint(rule, self._policies.ids)}, but is not"
        for rule in difference.unexpected:
            yield f"  rule {rule!r}: violated, but not expected"
        for reason in row["reasons"]:
            yield f"  reason: {reason}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Shows the message of a case, without a traceback."""
        if isinstance(excinfo.value, CaseFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place of the case, for pytest."""
        return self.path, self._line.number - 1, f"case {self.name}"


class CoverageReports:
    """Adds the coverage of a case to its report, with which it also leaves the processes of pytest-xdist."""

    name = "guardagent-coverage"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Adds the coverage to the report of the case itself."""
        report = yield
        if isinstance(item, CaseItem) and call.when == "call" and item.coverage is not None:
            report.guardagent_coverage = item.coverage
        return report


def _name_of(line: InputLine) -> str | None:
    """The id of a case; None if its line is unreadable."""
    try:
        record = json.loads(line.data or b"")
    except (ValueError, RecursionError):
        return None
    name = record.get("id") if isinstance(record, dict) else None
    if not isinstance(name, str | int):
        return None
    shown = "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in str(name).strip()
    )
    return shown or None
