"""A second evaluator of temporal formulas, written straight from their definitions."""

from __future__ import annotations

from collections.abc import Sequence

from guardagent.policy.language import formula as temporal
from guardagent.policy.monitors.automaton import Letter


def holds(formula: temporal.Formula, trace: Sequence[Letter], at: int = 0) -> bool:  # noqa: C901 - a case for each kind
    """Whether a formula holds at a step of a trace."""

    def now(body: temporal.Formula, step: int) -> bool:
        return holds(body, trace, step)

    end = len(trace)
    match formula:
        case temporal.TruthConstant(value):
            return value
        case temporal.Literal(atom, positive):
            return atom in trace[at].ok if positive else atom not in trace[at].ran
        case temporal.Conjunction(parts):
            return all(now(part, at) for part in parts)
        case temporal.Disjunction(parts):
            return any(now(part, at) for part in parts)
        case temporal.Next(body, strong):
            return now(body, at + 1) if at + 1 < end else not strong
        case temporal.Previous(body, strong):
            return now(body, at - 1) if at else not strong
        case temporal.Within(steps, body):
            return any(now(body, step) for step in range(at, min(end, at + steps + 1)))
        case temporal.Until(left, right):
            return any(now(right, i) and all(now(left, j) for j in range(at, i)) for i in range(at, end))
        case temporal.Release(left, right):
            return all(now(right, i) or any(now(left, j) for j in range(at, i)) for i in range(at, end))
        case temporal.Since(left, right):
            return any(now(right, i) and all(now(left, j) for j in range(i + 1, at + 1)) for i in range(at + 1))
        case temporal.TriggerFormula(left, right):
            return all(now(right, i) or any(now(left, j) for j in range(i + 1, at + 1)) for i in range(at + 1))
    raise AssertionError(formula)
