"""Duplicate and shadowed: a solver rule that another one implies, for every tool that it governs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.same import Broken, told_of
from guardagent.policy.lint.severity import covers
from guardagent.policy.lint.solvers import Case, asked, cases_of
from guardagent.policy.lint.subject import Subject
from guardagent.policy.lint.together import Together, together
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.solver.z3_text import solver_module

Governed = Mapping[str, Case]  # by tool


def check(subject: Subject) -> Iterator[LintFinding]:
    rules: dict[Rule, dict[str, Case]] = {}
    for case in cases_of(subject):
        rules.setdefault(case.rule, {})[case.tool] = case
    told: set[str] = set()
    for (first, one), (second, other) in combinations(rules.items(), 2):
        if told & {first.id, second.id}:
            continue
        forth, back = _shadows(second, other, first, one), _shadows(first, one, second, other)
        for found in told_of(first, second, forth, back, lambda rule: _broken(rules[rule])):
            told.add(found.policy or "")
            yield found


def _shadows(second: Rule, others: Governed, first: Rule, ones: Governed) -> bool:
    """Whether the second rule leaves the first one nothing to decide."""
    if not covers(second.source.on_violation, first.source.on_violation) or not ones.keys() <= others.keys():
        return False
    return all(_implied(ones[tool], others[tool]) for tool in ones)


def _implied(one: Case, other: Case) -> bool:
    """Whether whatever the other permits, the one does; what the one needs to be known, the other needs too."""
    whole = together([one, other])
    if whole is None or not whole.all_same(one, other) or not _as_strict(other, one):
        return False
    z3 = solver_module()
    open_ = whole.open_of(one)
    if open_ is None:
        return False
    permitted = z3.And(whole.permitted(one))
    denied = z3.Not(z3.Exists(open_, permitted) if open_ else permitted)
    terms = [*whole.permitted(other), *whole.same(one, other), denied]
    return asked(whole.context, terms)[0] == "unsat" and _denies(whole, one)


def _denies(whole: Together, one: Case) -> bool:
    """Whether a rule denies anything at all."""
    z3 = solver_module()
    open_, permitted = whole.open_of(one), z3.And(whole.permitted(one))
    return asked(whole.context, [z3.Not(z3.Exists(open_, permitted) if open_ else permitted)])[0] == "sat"


def _as_strict(other: Case, one: Case) -> bool:
    """Whether the other asks for at least what the one asks for, of what is not known."""
    strict = {other.sources[name]: _strictness(other, name) for name in other.given if name in other.sources}
    return all(strict[one.sources[name]] >= _strictness(one, name) for name in one.given)


def _strictness(case: Case, name: str) -> int:
    variable = case.variables[name]
    return 0 if variable.free else 2 if variable.required else 1


def _broken(cases: Governed) -> Broken | None:
    """What a rule denies."""
    z3 = solver_module()
    for case in cases.values():
        open_ = [one() for one in case.open.values()]
        whole = z3.And([*case.asserted, case.permit])
        values = case.example([z3.Not(z3.Exists(open_, whole) if open_ else whole)])
        if values is not None:
            return case.words(values), case.tool
    return None
