"""Counts the rules of a policy that its cases violate, and those that they satisfy.

A case *violates* a rule that is among the violated rules of its verdict. It *satisfies* a rule that judges its proposed
call (it names the tool, or a label of the call) and is neither violated nor undecided. A rule that only the end of a
conversation can violate, such as `after`, cannot be violated by a case: only its satisfaction counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.monitors.eventual import ExistsMonitor, ResponseMonitor
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.policies import Policies
from guardagent.types import Event


@dataclass(slots=True)
class PolicyCoverage:
    """The coverage of one policy.

    Attributes:
        rules: the ids of all rules.
        end_only: the rules that only the end of a conversation can violate.
        violated, satisfied: rules with a case.
        cases: the number of cases.
    """

    rules: tuple[str, ...]
    end_only: frozenset[str]
    violated: set[str] = field(default_factory=set)
    satisfied: set[str] = field(default_factory=set)
    cases: int = 0

    @property
    def never_violated(self) -> list[str]:
        return [rule for rule in self.rules if rule not in self.violated and rule not in self.end_only]

    @property
    def never_satisfied(self) -> list[str]:
        return [rule for rule in self.rules if rule not in self.satisfied]

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

    def add(self, found: dict[str, Any]) -> None:
        """Adds the result of `covered_rules`."""
        known = PolicyCoverage(tuple(found["rules"]), frozenset(found["end_only"]))
        policy = self.policies.setdefault(found["policy"], known)
        policy.violated.update(found["violated"])
        policy.satisfied.update(found["satisfied"])
        policy.cases += 1

    def clear(self) -> None:
        self.policies.clear()

    @property
    def is_full(self) -> bool:
        return not any(one.never_violated or one.never_satisfied for one in self.policies.values())

    def lines(self) -> list[str]:
        return [line for policy, one in sorted(self.policies.items()) for line in one.lines(policy)]


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
        "violated": sorted(set(verdict["rules"])),
        "satisfied": sorted(satisfied),
    }


def _end_only(policies: Policies) -> Iterator[str]:
    for rule in policies.rules:
        if not any(_can_be_violated_by_a_call(monitor) for monitor in rule.monitors):
            yield rule.id


def _can_be_violated_by_a_call(monitor: Any) -> bool:
    if isinstance(monitor, PropositionalMonitor):
        return any(monitor.automaton.violated)
    return not isinstance(monitor, ExistsMonitor | ResponseMonitor)
