"""Duplicate and shadowed, by the order of steps: a rule that another one implies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.implied import Compared, compared
from guardagent.policy.lint.same import Broken, told_of
from guardagent.policy.lint.severity import covers, goes_on
from guardagent.policy.lint.steps import Machine, Undecided
from guardagent.policy.lint.subject import Subject
from guardagent.policy.lint.words import calls_of


def check(subject: Subject) -> Iterator[LintFinding]:
    machines = [Machine(rule, subject.tags, soundly=True) for rule in subject.rules]
    machines = [one for one in machines if any(track is not None for track in one.tracks)]
    told: set[str] = set()
    for first, second in combinations(machines, 2):
        if not (first.rule.tools & second.rule.tools or first.rule.labels & second.rule.labels):
            continue
        try:
            found = [] if told & {first.rule.id, second.rule.id} else list(_of_pair(first, second, subject))
        except Undecided:
            subject.leave_open(f"whether {first.rule.id} and {second.rule.id} say the same", "they are too large")
            continue
        told |= {one.policy for one in found if one.policy}
        yield from found


def _of_pair(first: Machine, second: Machine, subject: Subject) -> Iterator[LintFinding]:
    forth, back = _shadowed(first, second, subject), _shadowed(second, first, subject)
    found = {first.rule: forth, second.rule: back}
    return told_of(first.rule, second.rule, forth, back, lambda rule: _broken(found[rule]))


def _shadowed(first: Machine, second: Machine, subject: Subject) -> Compared | None:
    """How the first one is implied by the second, where that leaves it nothing to decide."""
    severity = second.rule.source.on_violation
    if not first.exact or not covers(severity, first.rule.source.on_violation):
        return None
    found = compared(first, second, subject.tools, going_on=goes_on(severity))
    return found if found.implied and found.example is not None else None


def _broken(found: Compared | None) -> Broken | None:
    if found is None or found.example is None:
        return None
    return calls_of(found.example), found.example[-1].call.tool if found.example else None
