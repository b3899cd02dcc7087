"""Vacuous: a rule over data, or one of its texts, that nothing violates."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.language import ast
from guardagent.policy.lint.data import abstract_of, is_over_data, never_broken
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.subject import Subject
from guardagent.policy.lint.words import text_of
from guardagent.policy.logic.abstract import Abstract
from guardagent.policy.monitors.rule import Rule


def check(subject: Subject) -> Iterator[LintFinding]:
    """`forall(t(), true)` is meant: it says of a tool that it may be called."""
    abstract = abstract_of(subject)
    for rule in subject.rules if abstract is not None else ():
        assert abstract is not None
        for at, read in enumerate(rule.rules):
            one = rule if len(rule.rules) == 1 else subject.alone(rule, read)
            meant = isinstance(read, ast.Forall) and is_true(read.condition)
            if is_over_data(one) and one.tools and not meant and never_broken(subject, one):
                yield _finding(one, text_of(rule, at, subject), abstract)


def _finding(rule: Rule, text: str, abstract: Abstract) -> LintFinding:
    tool = min(rule.tools)
    message = (
        f"nothing violates `{text}`: what it asks is so of every call, or it means no call at all; say what it forbids"
    )
    found = abstract.example(tool, kept=[rule])
    example = f"{found.words if found else f'{tool}()'}: kept, as with anything else that is known"
    return LintFinding("vacuous", rule.id, tool if len(rule.tools) == 1 else None, message, example)
