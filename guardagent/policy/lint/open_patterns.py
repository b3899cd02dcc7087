"""Call patterns whose constraints on arguments become conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from guardagent.policy.language import ast


def conjuncts(condition: ast.Term) -> tuple[ast.Term, ...]:
    """The parts of a condition that must all hold."""
    return condition.parts if isinstance(condition, ast.And) else (condition,)


def opened(pattern: ast.Pattern, conditions: Sequence[ast.Term]) -> ast.Forall:
    """Returns a rule that requires some conditions and the pattern's constraints of every call of the tools."""
    arguments: list[ast.Argument] = []
    found: list[ast.Term] = []
    for at, one in enumerate(pattern.arguments):
        variable = one.value if isinstance(one.value, ast.Variable) else ast.Variable(f"argument {at}")
        arguments.append(ast.Argument(one.name, variable))
        if isinstance(one.value, ast.RegexValue):
            found.append(ast.Matches(variable, one.value.regex))
        elif isinstance(one.value, ast.ExactValue):
            found.append(ast.Compare(variable, "==", ast.Constant(one.value.value)))
    return ast.Forall(replace(pattern, arguments=tuple(arguments)), ast.And((*found, *conditions)))
