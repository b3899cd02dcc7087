"""Decides whether a rule asks for an earlier step: whether each call that violates it would be right after other steps.

`refund` without an earlier `login` is such a violation. A refund that is too large is none, since no earlier step
makes it smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Literal

from guardagent.policy.language import ast
from guardagent.policy.logic.rule_tree import AtomicRule, RuleTree
from guardagent.policy.monitors.automaton import Automaton
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.monitors.rule import Rule, precondition

Need = Literal["earlier step", "later step", "other"]


def needs_earlier_step(rule: Rule) -> bool:
    """Whether every violation at a call is a missing earlier step; violations at the end do not count."""
    parts = RuleTree(rule.rules).atomic_rules
    needs = {_need(part, monitor) for part, monitor in zip(parts, rule.monitors, strict=True)}
    return "earlier step" in needs and "other" not in needs


def _need(part: AtomicRule, monitor: object) -> Need:
    if isinstance(monitor, PropositionalMonitor):
        return _need_of(monitor.automaton)
    match part.rule, part.negated:
        case ast.Before(_, condition, partner, wanted), False:
            return "earlier step" if _is_earlier_call(precondition(condition, partner, wanted)) else "other"
        case ast.Forall(_, condition), False:
            return "earlier step" if _is_earlier_call(condition) else "other"
        case (ast.Exists() | ast.After(), False) | (ast.Before() | ast.Forall(), True):
            return "later step"
    return "other"


def _is_earlier_call(condition: ast.Term) -> bool:
    match condition:
        case ast.SomeCall():
            return True
        case ast.Implies(_, second):
            return _is_earlier_call(second)
        case ast.And(parts):
            return all(map(_is_earlier_call, parts))
    return False


def _need_of(automaton: Automaton) -> Need:
    """The need of an automaton. Steps that the rule does not name are no check: they neither violate it nor suffice."""
    rows, violated = automaton.table, automaton.violated
    live = {state for state in range(len(rows)) if not violated[state]}
    breaking = [{state for state in live if violated[rows[state][letter]]} for letter in range(len(rows[0]))]
    if not any(breaking):
        return "later step"
    every = {state: live.intersection(rows[state]) for state in live}
    unnamed = {state: live.intersection(rows[state][:2]) for state in live}  # the letters 0 and 1 satisfy no atom
    for states in {frozenset(one) for one in breaking if one}:
        right = live - states
        if states - _reaching(right, every) or states & _reaching(right, unnamed):
            return "other"
    return "other" if any(breaking[:2]) else "earlier step"


def _reaching(targets: Iterable[int], steps: Mapping[int, AbstractSet[int]]) -> set[int]:
    """The states from which steps lead to a target, and the targets."""
    found = set(targets)
    while more := {state for state, following in steps.items() if state not in found and following & found}:
        found |= more
    return found
