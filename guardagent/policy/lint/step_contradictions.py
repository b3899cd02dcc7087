"""Finds tools that the order of steps never allows, or after which a pending obligation can never be met."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from guardagent.policy.lint.descriptions import calls_of, rules_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.minimal_set import minimal_set
from guardagent.policy.lint.steps import OrderResult, RuleAutomaton, SearchLimitError, find_order, first_violation
from guardagent.policy.lint.target import LintTarget


def step_contradictions(target: LintTarget, never: Sequence[str]) -> Iterator[LintFinding]:
    """Yields findings for tools that rules never allow, or whose obligations can never be met.

    Args:
        target: the policy file.
        never: tools with another reason why they can never be called.
    """
    automata = [RuleAutomaton(rule, target.tags) for rule in target.blocking]
    automata = [one for one in automata if any(track is not None for track in one.tracks)]
    try:
        yield from _of_all(automata, target, never)
    except SearchLimitError:
        target.add_undecided("tools that can never be called", "the rules distinguish too many kinds of steps")


def _of_all(automata: Sequence[RuleAutomaton], target: LintTarget, never: Sequence[str]) -> Iterator[LintFinding]:
    tools = sorted((tool for tool in target.tools if tool not in never), key=target.named_tools.__contains__)
    found = find_order(automata, tools, None, ending=True)
    if found.path is None:
        yield _unsatisfiable(_least(found.automata, lambda some: find_order(some, tools, None, ending=True)), target)
        return
    for tool in sorted({tool for one in automata for tool in one.rule.tools} - target.forbidden_tools - set(never)):
        yield from _of_tool(tool, automata, tools, target)


def _of_tool(
    tool: str, automata: Sequence[RuleAutomaton], tools: Sequence[str], target: LintTarget
) -> Iterator[LintFinding]:
    first = [tool, *(one for one in tools if one != tool)]  # examples prefer this tool

    def called(some: Sequence[RuleAutomaton]) -> OrderResult:
        return find_order(some, first, tool, ending=False)

    def ended(some: Sequence[RuleAutomaton]) -> OrderResult:
        return find_order(some, first, tool, ending=True)

    at_the_end = ended(automata)
    if at_the_end.path is not None:
        return
    found = called(automata)
    if found.path is None:
        yield _never_called(tool, _least(found.automata, called), called, target)
        return
    ids = _ids(_least(at_the_end.automata, ended), target)
    message = f"after '{tool}' is called, no conversation can meet the pending obligation of {rules_of(ids)}"
    example = f"{calls_of(found.path)}: allowed, but the obligation stays pending at the end, whatever follows"
    yield LintFinding("contradictory", ids[-1], tool, message, example, tuple(ids[:-1]))


def _least(
    automata: Sequence[RuleAutomaton], search: Callable[[Sequence[RuleAutomaton]], OrderResult]
) -> list[RuleAutomaton]:
    """Returns a minimal set of rules that make it impossible."""
    kept = sorted(automata, key=lambda one: one.rule.first_monitor)
    return minimal_set(kept, lambda some: search(some).path is None)


def _ids(automata: Sequence[RuleAutomaton], target: LintTarget) -> list[str]:
    """Returns the ids of rules, with rules that only forbid tools first."""
    ids = [one.rule.id for one in automata]
    return sorted(ids, key=lambda one: one not in target.forbidding_rules)


def _never_called(
    tool: str,
    least: Sequence[RuleAutomaton],
    called: Callable[[Sequence[RuleAutomaton]], OrderResult],
    target: LintTarget,
) -> LintFinding:
    ids = _ids(least, target)
    least = sorted(least, key=lambda one: ids.index(one.rule.id))
    message = f"'{tool}' can never be called: no order of calls satisfies {rules_of(ids)}{' together' * (len(ids) > 1)}"
    path = called(least[:-1]).path
    assert path is not None
    broken = first_violation(least, path)
    assert broken is not None
    automaton, at = broken
    others = f", allowed by {rules_of(ids[:-1])}," if len(ids) > 1 else ""
    example = f"{calls_of(path)}{others} is denied by rule '{automaton.rule.id}' at {path[at].call.tool}()"
    return LintFinding("contradictory", ids[-1], tool, message, example, tuple(ids[:-1]))


def _unsatisfiable(least: Sequence[RuleAutomaton], target: LintTarget) -> LintFinding:
    ids = _ids(least, target)
    message = f"no conversation satisfies {rules_of(ids)}{' together' * (len(ids) > 1)}"
    first = next(iter(target.named_tools), "another_tool")
    example = f"{first}(), or no call at all: a rule is violated either way"
    return LintFinding("contradictory", ids[-1], None, message, example, tuple(ids[:-1]))
