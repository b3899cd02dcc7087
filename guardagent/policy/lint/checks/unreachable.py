"""Unreachable: allowed values of a variable that the assertions exclude."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from guardagent.policy.language.values import shown
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.solver import SolverCase, cases_of
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.solver.literals import term_of
from guardagent.policy.solver.sorts import Enumeration


def check(target: LintTarget) -> Iterator[LintFinding]:
    for case in cases_of(target):
        if case.check(case.assertions)[0] == "sat":  # otherwise the rule is contradictory
            for name in case.variable_terms:
                yield from _of_variable(case, name, target)


def _of_variable(case: SolverCase, name: str, target: LintTarget) -> Iterator[LintFinding]:
    for value in _values(case, name):
        status, _ = case.check(
            [*case.assertions, case.variable_terms[name] == term_of(value, case.variable_terms[name])]
        )
        if status == "unknown":
            question = f"whether variable '{name}' of rule '{case.rule.id}' can be {shown(value)}"
            target.add_undecided(question, "Z3 reached no result")
        if status == "unsat":
            message = (
                f"variable '{name}' can never be {shown(value)}: the assertions exclude the value; "
                "remove the value, or change the assertions"
            )
            example = f"{case.describe({name: value})}: denied, whatever the other values"
            yield LintFinding("unreachable", case.rule.id, case.tool, message, example)


def _values(case: SolverCase, name: str) -> tuple[Any, ...]:
    variable = case.variables[name]
    return variable.enum or (variable.sort.values if isinstance(variable.sort, Enumeration) else ())
