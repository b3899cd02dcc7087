"""Unreachable: a case of a condition, `c == "first" -> …`, that the other conditions exclude."""

from __future__ import annotations

from collections.abc import Iterator

from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.lint.data_rules import analysis_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.open_patterns import conjuncts, opened
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
                    yield from _of_rule(rule, opened(one.pattern, conjuncts(one.condition)), analysis, target)


def _of_rule(rule: Rule, read: ast.Forall, analysis: PolicyAnalysis, target: LintTarget) -> Iterator[LintFinding]:
    assert isinstance(read.condition, ast.And)
    parts = read.condition.parts
    for at, part in enumerate(parts):
        if isinstance(part, ast.Implies):
            beside = parts[:at] + parts[at + 1 :]
            kept = target.rule_of(rule, ast.Forall(read.pattern, ast.And(beside)))
            case = target.rule_of(rule, ast.Forall(read.pattern, part.first))
            tools = sorted(one for one in case.tools if not analysis.is_never_allowed(one, [kept]))
            if tools and all(analysis.is_never_allowed(tool, [kept], others=[case]) for tool in tools):
                yield _finding(rule, tools, part.first, kept, analysis)


def _finding(rule: Rule, tools: list[str], case: ast.Term, kept: Rule, analysis: PolicyAnalysis) -> LintFinding:
    message = f"no call satisfies the case '{text_of(case)}': the other conditions exclude it; remove the case"
    found = analysis.example(tools[0], satisfied=[kept])
    call = found.description if found else f"{tools[0]}()"
    example = f"{call}: an allowed call, which does not satisfy '{text_of(case)}'"
    return LintFinding("unreachable", rule.id, tools[0] if len(tools) == 1 else None, message, example)
