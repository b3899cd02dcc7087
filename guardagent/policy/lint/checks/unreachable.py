"""Unreachable: values that a variable may have, and with which the assertions alone leave no call to permit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from guardagent.policy.language.values import shown
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.solver_cases import SolverCase, cases_of
from guardagent.policy.lint.subject import LintSubject
from guardagent.policy.solver.literals import term_of
from guardagent.policy.solver.sorts import Enumeration


def check(subject: LintSubject) -> Iterator[LintFinding]:
    for case in cases_of(subject):
        if case.check(case.assertions)[0] == "sat":  # else nothing is reachable, which is another fault
            for name in case.variable_terms:
                yield from _of_variable(case, name, subject)


def _of_variable(case: SolverCase, name: str, subject: LintSubject) -> Iterator[LintFinding]:
    for value in _values(case, name):
        status, _ = case.check(
            [*case.assertions, case.variable_terms[name] == term_of(value, case.variable_terms[name])]
        )
        if status == "unknown":
            subject.add_undecided(f"whether {name} of {case.rule.id} can be {shown(value)}", "Z3 does not know")
        if status == "unsat":
            message = (
                f"{name} can never be {shown(value)}: the assertions exclude it, whatever else is known; "
                "take the value out, or allow for it in the text"
            )
            example = f"{case.describe({name: value})}: denied, whatever else there is"
            yield LintFinding("unreachable", case.rule.id, case.tool, message, example)


def _values(case: SolverCase, name: str) -> tuple[Any, ...]:
    variable = case.variables[name]
    return variable.enum or (variable.sort.values if isinstance(variable.sort, Enumeration) else ())
