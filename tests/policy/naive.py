"""A second evaluator of temporal formulas, written straight from their definitions."""

from __future__ import annotations

from collections.abc import Sequence

from guardagent.policy.language.formula import (
    Conjunction,
    Disjunction,
    Formula,
    Literal,
    Next,
    Previous,
    Release,
    Since,
    TriggerFormula,
    TruthConstant,
    Until,
    Within,
)
from guardagent.policy.monitors.automaton import Letter


def holds(formula: Formula, trace: Sequence[Letter], at: int = 0) -> bool:  # noqa: C901 - a case for each kind
    """Whether a formula holds at a step of a trace."""

    def now(body: Formula, step: int) -> bool:
        return holds(body, trace, step)

    end = len(trace)
    match formula:
        case TruthConstant(value):
            return value
        case Literal(atom, positive):
            return atom in trace[at].ok if positive else atom not in trace[at].ran
        case Conjunction(parts):
            return all(now(part, at) for part in parts)
        case Disjunction(parts):
            return any(now(part, at) for part in parts)
        case Next(body, strong):
            return now(body, at + 1) if at + 1 < end else not strong
        case Previous(body, strong):
            return now(body, at - 1) if at else not strong
        case Within(steps, body):
            return any(now(body, step) for step in range(at, min(end, at + steps + 1)))
        case Until(left, right):
            return any(now(right, i) and all(now(left, j) for j in range(at, i)) for i in range(at, end))
        case Release(left, right):
            return all(now(right, i) or any(now(left, j) for j in range(at, i)) for i in range(at, end))
        case Since(left, right):
            return any(now(right, i) and all(now(left, j) for j in range(i + 1, at + 1)) for i in range(at + 1))
        case TriggerFormula(left, right):
            return all(now(right, i) or any(now(left, j) for j in range(i + 1, at + 1)) for i in range(at + 1))
    raise AssertionError(formula)
