"""The results of lines: a row of JSON or an error for each, counted and compared with the expectations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from guardagent.types import Verdict, unchecked_verdict


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one line: an error if it is unreadable, else a verdict.

    Attributes:
        row: the verdict as a line of JSON.
        label, rules, unchecked: the label, the ids of the violated policies, and whether the verdict has errors.
        is_clean: the record is allowed, without a warning.
        expected_label, expected_rules: the expectation of the record, if it has one.
        resumed: an earlier run has already reported it.
    """

    line: int
    error: str = ""
    row: str = ""
    label: int = 0
    rules: tuple[str, ...] = ()
    unchecked: bool = False
    is_clean: bool = False
    expected_label: int | None = None
    expected_rules: tuple[str, ...] | None = None
    resumed: bool = False


def result_of(line: int, record: Any, row: str, *, resumed: bool = False) -> Result:
    """The result of a record from the row of its verdict."""
    verdict = json.loads(row)
    return Result(
        line,
        "",
        row,
        verdict["label"],
        tuple(verdict["rules"]),
        bool(verdict["errors"]),
        verdict["decision"] == "allow",
        getattr(record, "label", None),
        getattr(record, "rules", None),
        resumed,
    )


def row_of(record_id: str | int, verdict: Verdict) -> str:
    """The verdict as a line of JSON; a verdict that JSON cannot represent becomes a denial."""
    try:
        return _json(record_id, verdict)
    except ValueError as error:
        return _json(
            record_id, unchecked_verdict(f"the verdict cannot be written as JSON: {error}", checked_by="policy")
        )


def _json(record_id: str | int, verdict: Verdict) -> str:
    row = {"id": record_id, **verdict.to_dict(), "rules": list(verdict.rules)}
    text = json.dumps(row, ensure_ascii=False, allow_nan=False, default=str)
    return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate becomes its JSON escape


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
