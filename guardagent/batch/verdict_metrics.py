"""Counts the results of a file's lines, and compares them with expected labels and rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from guardagent.batch.job import Result


@dataclass(slots=True)
class ConfusionMatrix:
    """Counts of true positives, false positives, false negatives and true negatives."""

    tp: int = 0
    fp: int = 0
    fn: int = 0
    tn: int = 0

    def add(self, *, found: bool, expected: bool) -> None:
        if found:
            self.tp, self.fp = self.tp + expected, self.fp + (not expected)
        else:
            self.fn, self.tn = self.fn + expected, self.tn + (not expected)

    @property
    def count(self) -> int:
        return self.tp + self.fp + self.fn + self.tn

    @property
    def accuracy(self) -> float | None:
        return _ratio(self.tp + self.tn, self.count)

    @property
    def precision(self) -> float | None:
        return _ratio(self.tp, self.tp + self.fp)

    @property
    def recall(self) -> float | None:
        return _ratio(self.tp, self.tp + self.fn)


@dataclass(slots=True)
class VerdictMetrics:
    """The results of the lines so far.

    Attributes:
        judged, unreadable: the number of lines with a verdict, and with an error.
        denied, unchecked: the number of verdicts with label 1, and with errors.
        violated: rule id -> the number of records that violate it.
        labels: the labels of the verdicts against the expected labels.
        rules: the same for each rule, over the records with expected rules.
    """

    judged: int = 0
    unreadable: int = 0
    denied: int = 0
    unchecked: int = 0
    violated: dict[str, int] = field(default_factory=dict)
    labels: ConfusionMatrix = field(default_factory=ConfusionMatrix)
    rules: dict[str, ConfusionMatrix] = field(default_factory=dict)

    @classmethod
    def for_rules(cls, rules: Iterable[str]) -> Self:
        """Empty metrics with a row for each rule."""
        ids = list(rules)
        return cls(violated=dict.fromkeys(ids, 0), rules={rule: ConfusionMatrix() for rule in ids})

    @property
    def status(self) -> int:
        """The exit status of a command with many verdicts."""
        return 2 if self.unreadable else 3 if self.unchecked else 1 if self.denied else 0

    def add(self, result: Result) -> None:
        if result.error:
            self.unreadable += 1
            return
        self.judged += 1
        self.denied += result.label
        self.unchecked += result.unchecked
        for rule in result.rules:
            self.violated[rule] = self.violated.get(rule, 0) + 1
        if result.expected_label is not None:
            self.labels.add(found=result.label == 1, expected=result.expected_label == 1)
        if result.expected_rules is not None:
            self._compare(set(result.rules), set(result.expected_rules))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        rules = {rule: ConfusionMatrix(**matrix) for rule, matrix in values["rules"].items()}
        return cls(**{**values, "labels": ConfusionMatrix(**values["labels"]), "rules": rules})

    def _compare(self, found: set[str], expected: set[str]) -> None:
        for rule in expected - self.rules.keys():  # a rule that the policies lack counts as missed
            self.rules[rule] = ConfusionMatrix()
        for rule, matrix in self.rules.items():
            matrix.add(found=rule in found, expected=rule in expected)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
