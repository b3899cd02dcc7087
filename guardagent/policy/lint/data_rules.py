"""Analyses data rules for all sessions, with Z3."""

from __future__ import annotations

from functools import lru_cache

from guardagent.policy.language import ast
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.monitors.rule import Rule


def is_over_data(rule: Rule) -> bool:
    """Whether a rule is about calls with their arguments, outputs, facts or state."""
    data = (ast.Forall, ast.Exists, ast.Before, ast.After)
    return any(isinstance(one, data) for read in rule.rules for one in ast.walk(read))


@lru_cache(4)
def analysis_of(target: LintTarget) -> PolicyAnalysis | None:
    """Returns the analysis of data rules and scopes, or None if there are none or Z3 is not installed."""
    if not any(is_over_data(rule) or rule.source.applies_to is not None for rule in target.rules):
        return None
    try:
        import z3  # noqa: F401
    except ImportError:
        target.add_undecided("data rules", "Z3 is not installed; install 'guardagent[solver]'")
        return None
    return PolicyAnalysis(target.policies, budget=target.seconds, known=target.known)


@lru_cache(1000)
def is_never_violated(target: LintTarget, rule: Rule) -> bool:
    """Whether it is proved that nothing violates a rule."""
    analysis = analysis_of(target)
    return analysis is not None and analysis.is_never_violated(rule)


def terms_of(rule: Rule) -> frozenset[str]:
    """Returns the facts, arguments, state and history that a rule reads."""
    return frozenset(word for read in rule.rules for one in ast.walk(read) for word in _words(one))


_OF_HISTORY = (
    *(ast.OfCall, ast.TimeOf, ast.SomeCall, ast.CountCalls, ast.SumCalls, ast.Selected, ast.Sources, ast.Seen),
    *(ast.Temporal, ast.Exists, ast.Before, ast.After),
)


def _words(node: object) -> list[str]:
    match node:
        case ast.Fact(path):
            return [f"fact {path[0]}"]
        case ast.StateOf(function):
            return [f"state {function}"]
        case ast.Field(ast.State(), name):
            return [f"state.{name}"]
        case ast.State():
            return ["state"]
        case ast.Argument(name):
            return [f"argument {name}"]
        case ast.Field(ast.OfCall("args", ast.Label()), name):
            return [f"argument {name}"]
        case ast.Principal() | ast.Now():
            return [type(node).__name__.lower()]
        case ast.CounterValue(name):
            return [f"counter {name}"]
        case ast.Forall(_, ast.Constant()):
            return ["history"]
    return ["history"] if isinstance(node, _OF_HISTORY) else []
