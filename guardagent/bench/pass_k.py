"""The metrics of tau-bench and the solver-aided paper: pass^k, and precision and recall of write calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

from guardagent.bench.metrics import percent
from guardagent.policy.language.values import equal

Call = tuple[str, Mapping[str, Any]]


def pass_hat_k(successes: Iterable[Sequence[bool]]) -> dict[int, float]:
    """For each k, the probability that k trials of a task all succeed, in percent: the mean of C(c, k) / C(n, k).

    The largest k is the smallest number of trials of a task.

    Args:
        successes: for each task, the success of each of its n trials; c of them are true.
    """
    tasks = [(sum(task), len(task)) for task in successes]
    most = min((trials for _, trials in tasks), default=0)
    return {k: round(100 * sum(comb(c, k) / comb(n, k) for c, n in tasks) / len(tasks), 2) for k in range(1, most + 1)}


@dataclass(frozen=True, slots=True)
class WriteCalls:
    """The numbers of write calls expected, made, and both."""

    expected: int = 0
    actual: int = 0
    right: int = 0

    def __add__(self, other: WriteCalls) -> WriteCalls:
        return WriteCalls(self.expected + other.expected, self.actual + other.actual, self.right + other.right)

    def to_dict(self) -> dict[str, Any]:
        return {
            "expected": self.expected,
            "made": self.actual,
            "right": self.right,
            "precision": percent(self.right, self.actual),
            "recall": percent(self.right, self.expected),
        }


def match_expected(actual: Sequence[Call], expected: Sequence[Call]) -> list[bool]:
    """For each call, whether it matches an expected one: each is matched once, in any order, with equal arguments."""
    remaining = list(expected)
    found = []
    for call in actual:
        at = next((at for at, one in enumerate(remaining) if one[0] == call[0] and _same(one[1], call[1])), None)
        found.append(at is not None)
        if at is not None:
            del remaining[at]
    return found


def _same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal: numbers by value, and null equals null."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return (left is None and right is None) or equal(left, right) is True
