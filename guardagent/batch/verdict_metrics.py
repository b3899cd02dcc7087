"""Counts what came of the lines of a file, and measures it where the records say what should come of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from guardagent.batch.job import Result


@dataclass(slots=True)
class ConfusionMatrix:
    """How often something was found rightly, found wrongly, missed, and rightly not found."""

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
    """What came of the lines so far.

    Attributes:
        judged, unreadable: how many lines gave a verdict, and how many an error.
        denied, unchecked: how many verdicts have label 1, and how many of them because of errors.
        violated: how many records violate a rule, by its id.
        labels: the labels of the verdicts beside those that the records say.
        rules: the same for each rule, over the records that say which rules are violated.
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
        """An empty one, with a row for each rule of some policies."""
        ids = list(rules)
        return cls(violated=dict.fromkeys(ids, 0), rules={rule: ConfusionMatrix() for rule in ids})

    @property
    def status(self) -> int:
        """The exit status of a command that gives many verdicts."""
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
        for rule in expected - self.rules.keys():  # one that the policies do not have is missed every time
            self.rules[rule] = ConfusionMatrix()
        for rule, matrix in self.rules.items():
            matrix.add(found=rule in found, expected=rule in expected)


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
