"""By the order of steps: tools that can never be called, or after which no conversation ends well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.steps import Machine, Possible, Undecided, first_broken, possible
from guardagent.policy.lint.subject import Subject
from guardagent.policy.lint.words import calls_of, rules_of


def by_steps(subject: Subject, never: Sequence[str]) -> Iterator[LintFinding]:
    """The tools that rules never allow, or not without an obligation that is never met.

    Args:
        subject: the policy file.
        never: tools that can never be called for another reason.
    """
    machines = [Machine(rule, subject.tags) for rule in subject.blocking]
    machines = [one for one in machines if any(track is not None for track in one.tracks)]
    try:
        yield from _of_all(machines, subject, never)
    except Undecided:
        subject.leave_open("tools that can never be called", "the rules tell too many steps apart together")


def _of_all(machines: Sequence[Machine], subject: Subject, never: Sequence[str]) -> Iterator[LintFinding]:
    tools = sorted((tool for tool in subject.tools if tool not in never), key=subject.named.__contains__)
    found = possible(machines, tools, None, ending=True)
    if found.way is None:
        yield _unkeepable(_least(found.machines, lambda some: possible(some, tools, None, ending=True)), subject)
        return
    for tool in sorted({tool for one in machines for tool in one.rule.tools} - subject.banned - set(never)):
        yield from _of_tool(tool, machines, tools, subject)


def _of_tool(tool: str, machines: Sequence[Machine], tools: Sequence[str], subject: Subject) -> Iterator[LintFinding]:
    first = [tool, *(one for one in tools if one != tool)]  # so that examples are of this one

    def called(some: Sequence[Machine]) -> Possible:
        return possible(some, first, tool, ending=False)

    def ended(some: Sequence[Machine]) -> Possible:
        return possible(some, first, tool, ending=True)

    at_the_end = ended(machines)
    if at_the_end.way is not None:
        return
    found = called(machines)
    if found.way is None:
        yield _never_called(tool, _least(found.machines, called), called, subject)
        return
    ids = _ids(_least(at_the_end.machines, ended), subject)
    message = f"once {tool} is called, no conversation can end well: what {rules_of(ids)} then ask for never comes"
    example = f"{calls_of(found.way)}: allowed, and whatever follows, what is owed at the end is not done"
    yield LintFinding("contradictory", ids[-1], tool, message, example)


def _least(machines: Sequence[Machine], asked: Callable[[Sequence[Machine]], Possible]) -> list[Machine]:
    """Some of the rules that already make it impossible, none of which can be left out."""
    kept = sorted(machines, key=lambda one: one.rule.first)
    for one in list(kept):
        without = [other for other in kept if other is not one]
        if asked(without).way is None:
            kept = without
    return kept


def _ids(machines: Sequence[Machine], subject: Subject) -> list[str]:
    """The rules, and last one that does not only forbid a tool."""
    ids = [one.rule.id for one in machines]
    return sorted(ids, key=lambda one: one not in subject.forbidding)


def _never_called(
    tool: str, least: Sequence[Machine], called: Callable[[Sequence[Machine]], Possible], subject: Subject
) -> LintFinding:
    ids = _ids(least, subject)
    least = sorted(least, key=lambda one: ids.index(one.rule.id))
    message = f"{tool} can never be called: no order of calls keeps {rules_of(ids)}{' together' * (len(ids) > 1)}"
    way = called(least[:-1]).way
    assert way is not None
    broken = first_broken(least, way)
    assert broken is not None
    machine, at = broken
    others = f", which {rules_of(ids[:-1])} would allow," if len(ids) > 1 else ""
    example = f"{calls_of(way)}{others} is denied by {machine.rule.id} at {way[at].call.tool}()"
    return LintFinding("contradictory", ids[-1], tool, message, example)


def _unkeepable(least: Sequence[Machine], subject: Subject) -> LintFinding:
    ids = _ids(least, subject)
    message = f"no conversation at all keeps {rules_of(ids)}{' together' * (len(ids) > 1)}"
    first = next(iter(subject.named), "another_tool")
    return LintFinding(
        "contradictory", ids[-1], None, message, f"{first}(), or no call at all: either way it ends badly"
    )
