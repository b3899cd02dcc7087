"""Finds tools that solver rules never permit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from guardagent.policy.lint.data_constraints import data_constraints
from guardagent.policy.lint.descriptions import rules_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.joint_solver_rules import joint_solver_rules
from guardagent.policy.lint.minimal_set import minimal_set
from guardagent.policy.lint.solver import SolverCase, cases_of
from guardagent.policy.lint.target import LintTarget


def solver_contradictions(target: LintTarget) -> Iterator[LintFinding]:
    """Yields findings for one rule, or for several rules of one tool with the same source expressions."""
    blocking = set(target.blocking)
    cases = [one for one in cases_of(target) if one.rule in blocking and not one.has_literal_permit]
    for tool in sorted({one.tool for one in cases} - target.forbidden_tools):
        mine = [one for one in cases if one.tool == tool]
        alone = [one for one in mine if one.check([*one.assertions, one.permit])[0] == "unsat"]
        if alone:
            yield from map(_alone, alone)
            continue
        several = list(_jointly(tool, mine, target))
        yield from several or _with_data(mine, target)


def _alone(case: SolverCase) -> LintFinding:
    empty = case.check(case.assertions)[0] == "unsat"
    why = "the assertions contradict each other" if empty else "no values of the variables satisfy the permit"
    message = f"'{case.tool}' can never be called: {why}"
    values = case.example([] if empty else case.assertions) or case.example([])
    example = f"{case.describe(values or {})}: denied, as with any other values"
    return LintFinding("contradictory", case.rule.id, case.tool, message, example)


def _jointly(tool: str, cases: Sequence[SolverCase], target: LintTarget) -> Iterator[LintFinding]:
    joint = joint_solver_rules(cases)
    status = "sat" if joint is None else joint.check(cases)
    if status == "unknown":
        target.add_undecided(f"whether all solver rules together permit '{tool}'", "Z3 reached no result")
    if joint is not None and status == "unsat":
        least = minimal_set(cases, lambda some: joint.check(some) == "unsat")
        *others, last = least
        ids = [one.rule.id for one in least]
        message = f"'{tool}' can never be called: no values of the variables satisfy {rules_of(ids)} together"
        values = others[0].example([*others[0].assertions, others[0].permit]) or {}
        denies = f"permitted by rule '{ids[0]}', but not by {rules_of(ids[1:])}"
        example = f"{others[0].describe(values)}: {denies}"
        yield LintFinding("contradictory", last.rule.id, tool, message, example, tuple(ids[:-1]))


def _with_data(cases: Sequence[SolverCase], target: LintTarget) -> Iterator[LintFinding]:
    """Yields findings for a solver rule together with data rules."""
    for case in cases:
        constraints = {rule: terms for rule in target.blocking if (terms := data_constraints(rule, case))}
        least = list(constraints)
        if not least or not _excluded(case, [constraints[rule] for rule in least]):
            continue
        for rule in constraints:
            without = [one for one in least if one is not rule]
            if _excluded(case, [constraints[one] for one in without]):
                least = without
        ids = [rule.id for rule in least]
        message = f"'{case.tool}' can never be called: no call satisfies {rules_of([*ids, case.rule.id])} together"
        values = case.example([*case.assertions, case.permit]) or {}
        example = f"{case.describe(values)}: permitted by rule '{case.rule.id}', but denied by {rules_of(ids)}"
        yield LintFinding("contradictory", case.rule.id, case.tool, message, example, tuple(ids))
        return


def _excluded(case: SolverCase, more: Sequence[Sequence[Any]]) -> bool:
    return case.check([*case.assertions, case.permit, *(term for terms in more for term in terms)])[0] == "unsat"
