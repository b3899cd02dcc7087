"""Duplicate and shadowed: a solver rule that another one implies, for every tool of the rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.forbidden_calls import rules_about_forbidden_calls
from guardagent.policy.lint.joint_solver_rules import JointSolverRules, joint_solver_rules
from guardagent.policy.lint.redundant import ViolatingCalls, redundancy_findings
from guardagent.policy.lint.severity import covers
from guardagent.policy.lint.solver import SolverCase, cases_of, check_terms
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.solver.z3_text import solver_module

CasesByTool = Mapping[str, SolverCase]  # by tool


def check(target: LintTarget) -> Iterator[LintFinding]:
    rules: dict[Rule, dict[str, SolverCase]] = {}
    for case in cases_of(target):
        rules.setdefault(case.rule, {})[case.tool] = case
    reported = set(rules_about_forbidden_calls(target))
    for (first, one), (second, other) in combinations(rules.items(), 2):
        if reported & {first.id, second.id}:
            continue
        forth, back = _shadows(second, other, first, one), _shadows(first, one, second, other)
        for found in redundancy_findings(first, second, forth, back, lambda rule: _broken(rules[rule])):
            reported.add(found.policy or "")
            yield found


def _shadows(second: Rule, others: CasesByTool, first: Rule, ones: CasesByTool) -> bool:
    """Whether the second rule makes the first one redundant."""
    if not covers(second.source.on_violation, first.source.on_violation) or not ones.keys() <= others.keys():
        return False
    return all(_implied(ones[tool], others[tool]) for tool in ones)


def _implied(one: SolverCase, other: SolverCase) -> bool:
    """Whether `one` permits every call that `other` permits, and requires no more known variables."""
    whole = joint_solver_rules([one, other])
    if whole is None or not whole.shares_all_variables(one, other) or not _as_strict(other, one):
        return False
    z3 = solver_module()
    open_ = whole.open_constants(one)
    if open_ is None:
        return False
    permitted = z3.And(whole.permit_terms(one))
    denied = z3.Not(z3.Exists(open_, permitted) if open_ else permitted)
    terms = [*whole.permit_terms(other), *whole.shared_equalities(one, other), denied]
    return check_terms(whole.context, terms)[0] == "unsat" and _denies(whole, one)


def _denies(whole: JointSolverRules, one: SolverCase) -> bool:
    """Whether a rule denies any call."""
    z3 = solver_module()
    open_, permitted = whole.open_constants(one), z3.And(whole.permit_terms(one))
    return check_terms(whole.context, [z3.Not(z3.Exists(open_, permitted) if open_ else permitted)])[0] == "sat"


def _as_strict(other: SolverCase, one: SolverCase) -> bool:
    """Whether `other` treats unknown variables at least as strictly as `one`."""
    strict = {other.sources[name]: _strictness(other, name) for name in other.variable_terms if name in other.sources}
    return all(strict[one.sources[name]] >= _strictness(one, name) for name in one.variable_terms)


def _strictness(case: SolverCase, name: str) -> int:
    variable = case.variables[name]
    return 0 if variable.free else 2 if variable.required else 1


def _broken(cases: CasesByTool) -> ViolatingCalls | None:
    """Returns a call that a rule denies."""
    z3 = solver_module()
    for case in cases.values():
        open_ = [one() for one in case.open.values()]
        whole = z3.And([*case.assertions, case.permit])
        values = case.example([z3.Not(z3.Exists(open_, whole) if open_ else whole)])
        if values is not None:
            return case.describe(values), case.tool
    return None
