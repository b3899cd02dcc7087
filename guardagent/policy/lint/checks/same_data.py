"""Duplicate and shadowed: a rule over data that another one implies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.language import ast
from guardagent.policy.language.printing import text_of
from guardagent.policy.lint.data import abstract_of, is_over_data, never_broken, vocabulary
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.same import Broken, told_of
from guardagent.policy.lint.severity import covers
from guardagent.policy.lint.steps import Machine
from guardagent.policy.lint.subject import Subject
from guardagent.policy.logic.abstract import Abstract
from guardagent.policy.monitors.rule import Rule


def check(subject: Subject) -> Iterator[LintFinding]:
    """Those that are about the order of steps only are compared elsewhere; a vacuous rule is another fault."""
    abstract = abstract_of(subject)
    if abstract is None:
        return
    rules = [rule for rule in subject.rules if is_over_data(rule) and not never_broken(subject, rule)]
    exact = {rule for rule in rules if Machine(rule, subject.tags).exact}
    looks_at = {rule: vocabulary(rule) for rule in rules}
    told: set[str] = set()
    for first, second in combinations(rules, 2):
        if (
            not _comparable(looks_at[first], looks_at[second])
            or (first in exact and second in exact)
            or told & {first.id, second.id}
        ):
            continue
        forth, back = _shadows(second, first, abstract), _shadows(first, second, abstract)
        for one in told_of(first, second, forth, back, lambda rule: _broken(rule, abstract)):
            told.add(one.policy or "")
            yield one


def _comparable(one: frozenset[str], other: frozenset[str]) -> bool:
    """Whether one rule looks at all that the other does; else to ask would seldom be worth its time."""
    return one <= other or other <= one


def _shadows(second: Rule, first: Rule, abstract: Abstract) -> bool:
    """Whether the second one leaves the first one nothing to decide."""
    severities = second.source.on_violation, first.source.on_violation
    return first.tools <= second.tools and covers(*severities) and abstract.implies(second, first)


def _broken(rule: Rule, abstract: Abstract) -> Broken | None:
    """What breaks a rule: a call, or an end."""
    found = (abstract.example(tool, violated=[rule]) for tool in sorted(rule.tools))
    call = next(((one.words, one.tool) for one in found if one is not None), None)
    return call or next((one for read in rule.rules if (one := _ended(read))), None)


def _ended(read: ast.Rule) -> Broken | None:
    match read:
        case ast.Exists(pattern):
            return "no call at all, and the end", pattern.tools[0].removeprefix("@")
        case ast.After(pattern, condition, partner):
            so = "" if is_true(condition) else f" so that {text_of(condition)}"
            return f"{text_of(pattern)}{so}, and no {text_of(partner)} after it", pattern.tools[0].removeprefix("@")
    return None
