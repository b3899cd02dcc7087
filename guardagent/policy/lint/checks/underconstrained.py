"""Under-constrained: a call is permitted though nothing in the rule supports it (*Solver-Aided Verification*, 5.1).

That is so where an assertion says only what follows from a fact, by an implication, and nothing says when the fact is
so; or where what would have to be known may be whatever permits the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from guardagent.policy.lint.descriptions import join_words
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.solver_cases import SolverCase, Values, cases_of
from guardagent.policy.lint.subject import LintSubject
from guardagent.policy.solver.explanations import describe_value
from guardagent.policy.solver.traversal import postorder
from guardagent.policy.solver.z3_text import solver_module


def check(subject: LintSubject) -> Iterator[LintFinding]:
    for case in cases_of(subject):
        if not case.has_literal_permit:
            yield from _undetermined(case, subject)
            yield from _free(case, subject)


# --- constants that nothing determines


def _undetermined(case: SolverCase, subject: LintSubject) -> Iterator[LintFinding]:
    """Of one call, the permit can hold, and can fail to hold."""
    if not case.open:
        return
    status, together = case.permit_varies()
    if status == "unknown":
        subject.add_undecided(f"whether {case.rule.id} determines what permits {case.tool}", "Z3 does not know")
    if status != "sat":
        return
    found = {name: case.permit_varies([one for one in case.open if one != name]) for name in case.open}
    alone = {name: terms for name, (status, terms) in found.items() if status == "sat"}
    for names, terms in [([name], terms) for name, terms in alone.items()] or [(sorted(case.open), together)]:
        values = case.example(terms)
        if values is not None and case.is_permitted(values):
            yield _finding(case, names, values)


def _finding(case: SolverCase, names: Sequence[str], values: Values) -> LintFinding:
    ways = _implications(case, names)
    one = len(names) == 1
    message = (
        f"nothing decides {join_words(names)}, on which the permit depends: {'it is' if one else 'they are'} no "
        f"{'variable' if one else 'variables'} of {case.tool}, and the assertions leave {'it' if one else 'them'} open"
        f"{ways}; write an equivalence, as (= {names[0]} (…)), or give {'it' if one else 'them'} a source"
    )
    example = f"{case.describe(values)}: permitted, as nothing says otherwise, though it could as well be denied"
    return LintFinding("underconstrained", case.rule.id, case.tool, message, example)


def _implications(case: SolverCase, names: Sequence[str]) -> str:
    """The assertions that only say what follows."""
    z3 = solver_module()
    assertions = zip(case.assertions, case.permit_check.encoding.assertions, strict=True)
    found = [
        f"line {one.line}" if one.name is None else one.name
        for term, one in assertions
        if z3.is_implies(term) and any(str(part.decl().name()) in names for part in _parts(term))
    ]
    return f" ({join_words(found)}: an implication)" if found else ""


def _parts(term: Any) -> list[Any]:
    return [part for part in postorder([term]) if solver_module().is_app(part)]


# --- variables that may be whatever permits the call


def _free(case: SolverCase, subject: LintSubject) -> Iterator[LintFinding]:
    for name, variable in case.variables.items():
        if variable.free and name in case.variable_terms:
            found = _dependence(case, name, subject)
            if found is not None:
                yield _of_free(case, name, *found)


def _dependence(case: SolverCase, name: str, subject: LintSubject) -> tuple[Values, Values] | None:
    """Two ways in which a call can be that differ in one variable only: permitted, and denied."""
    z3 = solver_module()
    open_ = [one() for one in case.open.values() if not one.arity()]
    other = z3.Const(f"{name} otherwise", case.variable_terms[name].sort())
    pair = [(case.variable_terms[name], other)]
    whole = z3.And([*case.assertions, case.permit])
    apart = z3.Not(z3.Exists(open_, whole) if open_ else whole)
    terms = [whole, *(z3.substitute(one, *pair) for one in (apart, *case.domain))]
    status, _ = case.check(terms)
    if status == "unknown":
        subject.add_undecided(f"whether {case.rule.id} depends on {name}", "Z3 does not know")
    permitted = case.example(terms) if status == "sat" else None
    if permitted is None:
        return None
    known = {one: value for one, value in permitted.items() if one != name}
    denied = case.example([*case.equalities(known), apart])
    if denied is None or not case.is_permitted(permitted) or case.is_permitted(denied) is not False:
        return None
    return permitted, denied


def _of_free(case: SolverCase, name: str, permitted: Values, denied: Values) -> LintFinding:
    mend = "leave `free` out" if case.variables[name].source is not None else "give it a source instead"
    message = f"{name} is `free: any`: while it is not known, it is taken to be whatever permits {case.tool}; {mend}"
    values = {one: value for one, value in permitted.items() if one != name}
    example = (
        f"{case.describe(values)}, and {name} is not known: permitted, as it could be that "
        f"{describe_value(name, permitted[name])}; were it known that "
        f"{describe_value(name, denied[name])}, it would be denied"
    )
    return LintFinding("underconstrained", case.rule.id, case.tool, message, example)
