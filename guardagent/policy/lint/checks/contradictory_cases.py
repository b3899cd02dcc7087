"""Contradictory: a case that a rule speaks of, such as `a > 100 -> …`, in which rules together allow no call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.lint.data_rules import analysis_of, is_over_data, terms_of
from guardagent.policy.lint.descriptions import rules_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.minimal_set import minimal_set
from guardagent.policy.lint.open_patterns import conjuncts, opened
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.monitors.rule import Rule


@dataclass(frozen=True)
class _Case:
    """A rule that requires the case of another rule, and the text of the case."""

    rule: Rule
    needed: Rule
    text: str


def check(target: LintTarget) -> Iterator[LintFinding]:
    """Skips cases that one rule excludes by itself: it does so on purpose."""
    analysis = analysis_of(target)
    rules = [rule for rule in target.blocking if is_over_data(rule)] if analysis is not None else []
    reported: set[tuple[str, ...]] = set()
    for case in (one for rule in rules for one in _cases_of(rule, target)):
        for tool in sorted(case.needed.tools - target.forbidden_tools):
            assert analysis is not None
            least = _excluding(tool, case, [rule for rule in rules if tool in rule.tools], analysis)
            ids = tuple(sorted(one.id for one in least))
            if len(ids) > 1 and (tool, *ids) not in reported:
                reported.add((tool, *ids))
                yield _finding(tool, case, least, analysis)


def _excluding(tool: str, case: _Case, rules: Sequence[Rule], analysis: PolicyAnalysis) -> list[Rule]:
    """Returns rules that together exclude a case of one of them, although the others do not; none if there are none."""

    def exclude(some: Sequence[Rule], *cases: Rule) -> bool:
        return analysis.is_never_allowed(tool, (), others=[*some, *cases])

    rules = [one for one in rules if terms_of(one) & terms_of(case.rule)]
    others = [one for one in rules if one is not case.rule]
    if not others or not exclude(rules, case.needed):
        return []
    if exclude(rules) or exclude(others, case.needed):
        return []
    return minimal_set([*others, case.rule], lambda some: exclude(some, case.needed))


def _cases_of(rule: Rule, target: LintTarget) -> Iterator[_Case]:
    for read in rule.rules:
        for part in read.parts if isinstance(read, ast.AllOf) else (read,):
            for pattern, case in _conditions_of(part):
                needed = opened(pattern, case)
                if needed.condition != ast.And(()):
                    yield _Case(rule, target.rule_of(rule, needed), text_of(needed.condition))


def _conditions_of(part: ast.Rule) -> Iterator[tuple[ast.Pattern, tuple[ast.Term, ...]]]:
    match part:
        case ast.Forall(pattern, condition):
            cases = [one.first for one in conjuncts(condition) if isinstance(one, ast.Implies)]
            yield from ((pattern, (one,)) for one in cases)
            if len(cases) < len(conjuncts(condition)):
                yield pattern, ()
        case ast.Before(pattern, condition):
            yield pattern, () if is_true(condition) else (condition,)


def _finding(tool: str, case: _Case, least: Sequence[Rule], analysis: PolicyAnalysis) -> LintFinding:
    ids = [one.id for one in least]
    message = (
        f"no call of '{tool}' with {case.text} is allowed: {rules_of(ids)} together exclude it; "
        "change one of them, or forbid the case in one rule"
    )
    found = analysis.example(tool, satisfied=[case.needed, *least[:-1]], violated=least[-1:])
    call = found.description if found else f"{tool}()"
    example = f"{call}: denied by rule '{ids[-1]}', allowed by {rules_of(ids[:-1])}"
    return LintFinding("contradictory", ids[-1], tool, message, example, tuple(ids[:-1]))
