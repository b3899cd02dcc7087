"""Vacuous: a solver rule that permits every call of a tool."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.solver import cases_of
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.solver.z3_text import solver_module


def check(target: LintTarget) -> Iterator[LintFinding]:
    """Skips a permit that is literally `true`: the call then needs only the required variables.

    Permits that depend on open symbols are under-constrained instead.
    """
    z3 = solver_module() if any(source.solver for source in target.file.rules) else None
    for case in cases_of(target):
        if case.has_literal_permit or not case.is_determined:
            continue
        assert z3 is not None
        open_ = [one() for one in case.open.values() if not one.arity()]
        whole = z3.And([*case.assertions, case.permit])
        status, _ = case.check([z3.Not(z3.Exists(open_, whole) if open_ else whole)])
        if status == "unknown":
            target.add_undecided(f"whether rule '{case.rule.id}' ever denies '{case.tool}'", "Z3 reached no result")
        values = case.example([whole]) if status == "unsat" else None
        if values is not None:
            message = f"rule '{case.rule.id}' permits every call of '{case.tool}', whatever the values of its variables"
            message += "; change it so that it denies something, or write 'permit: true'"
            example = f"{case.describe(values)}: permitted, as with any other values"
            yield LintFinding("vacuous", case.rule.id, case.tool, message, example)
