"""Under-constrained: a call is permitted although nothing in the rule supports it (*Solver-Aided Verification*, 5.1).

This happens if an assertion is only an implication from a fact that nothing else determines, or if a variable is
`free: any`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from guardagent.policy.lint.descriptions import join_words
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.solver import SolverCase, Values, cases_of
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.solver.explanations import describe_value
from guardagent.policy.solver.traversal import postorder
from guardagent.policy.solver.z3_text import solver_module


def check(target: LintTarget) -> Iterator[LintFinding]:
    for case in cases_of(target):
        if not case.has_literal_permit:
            yield from _undetermined(case, target)
            yield from _free(case, target)


# --- undetermined constants


def _undetermined(case: SolverCase, target: LintTarget) -> Iterator[LintFinding]:
    """Yields findings if the permit of one call can both hold and fail."""
    if not case.open:
        return
    status, together = case.permit_varies()
    if status == "unknown":
        question = f"whether rule '{case.rule.id}' determines the permit of '{case.tool}'"
        target.add_undecided(question, "Z3 reached no result")
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
        f"the permit depends on {join_words(map(repr, names))}, which nothing determines: "
        f"{'it is not a variable' if one else 'they are not variables'} of '{case.tool}', and the assertions leave "
        f"{'it' if one else 'them'} open{ways}; write an equivalence such as '(= {names[0]} (…))', "
        f"or give {'it' if one else 'them'} a source"
    )
    example = f"{case.describe(values)}: permitted, although the rule could just as well deny it"
    return LintFinding("underconstrained", case.rule.id, case.tool, message, example)


def _implications(case: SolverCase, names: Sequence[str]) -> str:
    """Lists the assertions that are implications to these constants."""
    z3 = solver_module()
    assertions = zip(case.assertions, case.permit_check.encoding.assertions, strict=True)
    found = [
        f"line {one.line}" if one.name is None else repr(one.name)
        for term, one in assertions
        if z3.is_implies(term) and any(str(part.decl().name()) in names for part in _parts(term))
    ]
    return f" ({join_words(found)}: an implication)" if found else ""


def _parts(term: Any) -> list[Any]:
    return [part for part in postorder([term]) if solver_module().is_app(part)]


# --- free variables


def _free(case: SolverCase, target: LintTarget) -> Iterator[LintFinding]:
    for name, variable in case.variables.items():
        if variable.free and name in case.variable_terms:
            found = _dependence(case, name, target)
            if found is not None:
                yield _of_free(case, name, *found)


def _dependence(case: SolverCase, name: str, target: LintTarget) -> tuple[Values, Values] | None:
    """Returns the values of a permitted and a denied call that differ in one variable only."""
    z3 = solver_module()
    open_ = [one() for one in case.open.values() if not one.arity()]
    other = z3.Const(f"{name} otherwise", case.variable_terms[name].sort())
    pair = [(case.variable_terms[name], other)]
    whole = z3.And([*case.assertions, case.permit])
    apart = z3.Not(z3.Exists(open_, whole) if open_ else whole)
    terms = [whole, *(z3.substitute(one, *pair) for one in (apart, *case.domain))]
    status, _ = case.check(terms)
    if status == "unknown":
        target.add_undecided(f"whether rule '{case.rule.id}' depends on variable '{name}'", "Z3 reached no result")
    permitted = case.example(terms) if status == "sat" else None
    if permitted is None:
        return None
    known = {one: value for one, value in permitted.items() if one != name}
    denied = case.example([*case.equalities(known), apart])
    if denied is None or not case.is_permitted(permitted) or case.is_permitted(denied) is not False:
        return None
    return permitted, denied


def _of_free(case: SolverCase, name: str, permitted: Values, denied: Values) -> LintFinding:
    mend = "remove 'free: any'" if case.variables[name].source is not None else "add a 'from:' instead"
    assumed = f"if it is unknown, a value that permits '{case.tool}' is assumed"
    message = f"variable '{name}' is 'free: any': {assumed}; {mend}"
    values = {one: value for one, value in permitted.items() if one != name}
    example = (
        f"{case.describe(values)}, and '{name}' is unknown: permitted, since possibly "
        f"{describe_value(name, permitted[name])}; if it were known that "
        f"{describe_value(name, denied[name])}, it would be denied"
    )
    return LintFinding("underconstrained", case.rule.id, case.tool, message, example)
