"""Unreachable: a case of a condition, `c == "first" -> …`, that no call can be while what stands beside it is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.lint.data_rules import analysis_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.subject import LintSubject
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.monitors.rule import Rule


def check(subject: LintSubject) -> Iterator[LintFinding]:
    abstract = analysis_of(subject)
    for rule in subject.rules if abstract is not None else ():
        assert abstract is not None
        for read in rule.rules:
            for one in read.parts if isinstance(read, ast.AllOf) else (read,):
                if isinstance(one, ast.Forall):
                    yield from _of_rule(rule, _opened(one), abstract, subject)


def _opened(rule: ast.Forall) -> ast.Forall:
    """The same, with what its pattern asks of arguments as conditions."""
    arguments: list[ast.Argument] = []
    conditions: list[ast.Term] = []
    for at, one in enumerate(rule.pattern.arguments):
        variable = one.value if isinstance(one.value, ast.Variable) else ast.Variable(f"argument {at}")
        arguments.append(ast.Argument(one.name, variable))
        if isinstance(one.value, ast.RegexValue):
            conditions.append(ast.Matches(variable, one.value.regex))
        elif isinstance(one.value, ast.ExactValue):
            conditions.append(ast.Compare(variable, "==", ast.Constant(one.value.value)))
    parts = rule.condition.parts if isinstance(rule.condition, ast.And) else (rule.condition,)
    return ast.Forall(replace(rule.pattern, arguments=tuple(arguments)), ast.And((*conditions, *parts)))


def _of_rule(rule: Rule, opened: ast.Forall, abstract: PolicyAnalysis, subject: LintSubject) -> Iterator[LintFinding]:
    assert isinstance(opened.condition, ast.And)
    parts = opened.condition.parts
    for at, part in enumerate(parts):
        if isinstance(part, ast.Implies):
            beside = parts[:at] + parts[at + 1 :]
            kept = subject.rule_of(rule, ast.Forall(opened.pattern, ast.And(beside)))
            case = subject.rule_of(rule, ast.Forall(opened.pattern, ast.And((*beside, part.first))))
            tools = sorted(one for one in case.tools if not abstract.is_never_allowed(one, [kept]))
            if tools and all(abstract.is_never_allowed(tool, [case]) for tool in tools):
                yield _finding(rule, tools, part.first, kept, abstract)


def _finding(rule: Rule, tools: list[str], case: ast.Term, kept: Rule, abstract: PolicyAnalysis) -> LintFinding:
    message = f"no call can ever be so that {text_of(case)}: what stands beside it excludes that; take the case out"
    found = abstract.example(tools[0], kept=[kept])
    example = f"{found.description if found else f'{tools[0]}()'}: as every call that is kept, not {text_of(case)}"
    return LintFinding("unreachable", rule.id, tools[0] if len(tools) == 1 else None, message, example)
