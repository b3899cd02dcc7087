"""Unreachable: a case of a condition, `c == "first" -> …`, that the other conditions exclude."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.lint.data_rules import analysis_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.monitors.rule import Rule


def check(target: LintTarget) -> Iterator[LintFinding]:
    analysis = analysis_of(target)
    for rule in target.rules if analysis is not None else ():
        assert analysis is not None
        for read in rule.rules:
            for one in read.parts if isinstance(read, ast.AllOf) else (read,):
                if isinstance(one, ast.Forall):
                    yield from _of_rule(rule, _opened(one), analysis, target)


def _opened(rule: ast.Forall) -> ast.Forall:
    """Moves the pattern's argument constraints into the condition."""
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


def _of_rule(rule: Rule, opened: ast.Forall, analysis: PolicyAnalysis, target: LintTarget) -> Iterator[LintFinding]:
    assert isinstance(opened.condition, ast.And)
    parts = opened.condition.parts
    for at, part in enumerate(parts):
        if isinstance(part, ast.Implies):
            beside = parts[:at] + parts[at + 1 :]
            kept = target.rule_of(rule, ast.Forall(opened.pattern, ast.And(beside)))
            case = target.rule_of(rule, ast.Forall(opened.pattern, ast.And((*beside, part.first))))
            tools = sorted(one for one in case.tools if not analysis.is_never_allowed(one, [kept]))
            if tools and all(analysis.is_never_allowed(tool, [case]) for tool in tools):
                yield _finding(rule, tools, part.first, kept, analysis)


def _finding(rule: Rule, tools: list[str], case: ast.Term, kept: Rule, analysis: PolicyAnalysis) -> LintFinding:
    message = f"no call satisfies the case '{text_of(case)}': the other conditions exclude it; remove the case"
    found = analysis.example(tools[0], satisfied=[kept])
    call = found.description if found else f"{tools[0]}()"
    example = f"{call}: an allowed call, which does not satisfy '{text_of(case)}'"
    return LintFinding("unreachable", rule.id, tools[0] if len(tools) == 1 else None, message, example)
