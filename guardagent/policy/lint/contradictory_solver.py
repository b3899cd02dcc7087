"""By solver rules: tools that can never be called, as no values of the variables satisfy what permits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.mixed import asked_of
from guardagent.policy.lint.solvers import Case, cases_of
from guardagent.policy.lint.subject import Subject
from guardagent.policy.lint.together import Together, together
from guardagent.policy.lint.words import rules_of


def by_solver(subject: Subject) -> Iterator[LintFinding]:
    """By one rule, or by several of one tool whose variables come from the same expressions."""
    blocking = set(subject.blocking)
    cases = [one for one in cases_of(subject) if one.rule in blocking and not one.said_outright]
    for tool in sorted({one.tool for one in cases} - subject.banned):
        mine = [one for one in cases if one.tool == tool]
        alone = [one for one in mine if one.ask([*one.asserted, one.permit])[0] == "unsat"]
        if alone:
            yield from map(_of_one, alone)
            continue
        several = list(_of_several(tool, mine, subject))
        yield from several or _with_data(mine, subject)


def _of_one(case: Case) -> LintFinding:
    empty = case.ask(case.asserted)[0] == "unsat"
    why = "its assertions contradict each other" if empty else "no values of its variables satisfy what permits it"
    message = f"{case.tool} can never be called: {why}"
    values = case.example([] if empty else case.asserted) or case.example([])
    example = f"{case.words(values or {})}: denied, as with any other values"
    return LintFinding("contradictory", case.rule.id, case.tool, message, example)


def _of_several(tool: str, cases: Sequence[Case], subject: Subject) -> Iterator[LintFinding]:
    whole = together(cases)
    status = "sat" if whole is None else whole.ask(cases)
    if status == "unknown":
        subject.leave_open(f"whether {tool} can be called by its solver rules together", "Z3 does not know")
    if whole is not None and status == "unsat":
        least = _least(whole, cases)
        *others, last = least
        ids = [one.rule.id for one in least]
        message = f"{tool} can never be called: no values of the variables satisfy {rules_of(ids)} together"
        values = others[0].example([*others[0].asserted, others[0].permit]) or {}
        denies = f"permitted by {ids[0]}, and then not by {rules_of(ids[1:])}"
        yield LintFinding("contradictory", last.rule.id, tool, message, f"{others[0].words(values)}: {denies}")


def _with_data(cases: Sequence[Case], subject: Subject) -> Iterator[LintFinding]:
    """By a solver rule and rules over data."""
    for case in cases:
        asked = {rule: terms for rule in subject.blocking if (terms := asked_of(rule, case))}
        least = list(asked)
        if not least or not _excluded(case, [asked[rule] for rule in least]):
            continue
        for rule in asked:
            without = [one for one in least if one is not rule]
            if _excluded(case, [asked[one] for one in without]):
                least = without
        ids = [rule.id for rule in least]
        message = f"{case.tool} can never be called: nothing satisfies {rules_of([*ids, case.rule.id])} together"
        values = case.example([*case.asserted, case.permit]) or {}
        example = f"{case.words(values)}: permitted by {case.rule.id}, and denied by {rules_of(ids)}"
        yield LintFinding("contradictory", case.rule.id, case.tool, message, example)
        return


def _excluded(case: Case, more: Sequence[Sequence[Any]]) -> bool:
    return case.ask([*case.asserted, case.permit, *(term for terms in more for term in terms)])[0] == "unsat"


def _least(whole: Together, cases: Sequence[Case]) -> list[Case]:
    """Some that already contradict each other, none of which can be left out."""
    kept = list(cases)
    for one in cases:
        without = [other for other in kept if other is not one]
        if whole.ask(without) == "unsat":
            kept = without
    return kept
