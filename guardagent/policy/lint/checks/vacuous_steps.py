"""Vacuous: a rule about the order of steps that no conversation violates, or that is decided by the first step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language import ast
from guardagent.policy.language.formula import atoms
from guardagent.policy.lint.descriptions import call_of, text_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.steps import calls_of_kinds
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.rule_tree import RuleTree
from guardagent.policy.monitors.automaton import Automaton
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.monitors.rule import Rule

_SILENT = 1  # the letter of a successful step that satisfies no atom


def check(target: LintTarget) -> Iterator[LintFinding]:
    for rule in target.rules:
        for at, (read, part) in enumerate(zip(RuleTree(rule.rules).atomic_rules, rule.monitors, strict=True)):
            if isinstance(read.rule, ast.Temporal) and isinstance(part, PropositionalMonitor):
                yield from _of_part(rule, part, atoms(read.rule.formula), text_of(rule, at, target), target)


def _of_part(
    rule: Rule, part: PropositionalMonitor, names: Sequence[str], text: str, target: LintTarget
) -> Iterator[LintFinding]:
    automaton = part.automaton
    if not _can_deny(automaton):
        tool = min(part.tools, default=None)
        shown = tool or "another_tool"
        message = f"no sequence of successful calls violates '{text}'; remove it, or forbid something in it"
        yield LintFinding("vacuous", rule.id, tool, message, f"{shown}() as the first call, or again: always allowed")
        return
    first = automaton.table[0][_SILENT]
    if automaton.satisfied[first]:
        call = _unsatisfying_call(part, names)
        message = (
            f"'{text}' applies to the first step only, since the formula does not begin with 'G'; "
            f"did you mean 'G({text})'?"
        )
        other = next((one for one in target.tools if one not in part.tools), "another_tool")
        example = f"{other}(), then {call_of(call)}: allowed, since the first call was {other}()"
        tool = call.tool if call.tool in part.tools else None
        yield LintFinding("vacuous", rule.id, tool, message, example)


def _can_deny(automaton: Automaton) -> bool:
    """Whether successful calls or the end can violate it. A failed call never satisfies a rule."""
    reached, waiting = {0}, [0]
    while waiting:
        new = {after for at, after in enumerate(automaton.table[waiting.pop()]) if at % 2} - reached
        reached |= new
        waiting += new
    return not all(automaton.accepting[state] for state in reached)


def _unsatisfying_call(part: PropositionalMonitor, names: Sequence[str]) -> SessionCall:
    """Returns a call that does not satisfy the rule as the first step."""
    automaton, alphabet = part.automaton, part.alphabet
    calls = calls_of_kinds(set(names), [*sorted(part.tools), "another_tool"])
    return next(one for one in calls if not automaton.satisfied[automaton.table[0][alphabet.index(one, ok=True)]])
