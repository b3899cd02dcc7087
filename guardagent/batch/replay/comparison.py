"""Counts how a candidate's answers differ from others, by rule, with an example of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from guardagent.batch.replay.conversation import NO_RULE, UNKNOWN, RuleAnswers
from guardagent.types import Decision

ALLOW, VIOLATED = "allow", "violated"
UNLISTED = "(no rule)"
"""The row of what no rule decides: undeclared tools and arguments, and `unlisted: deny`."""
_COUNTS = ("same", "differs", "undecidable", "unruled")
_DECISIONS = frozenset(map(str, Decision)) - {ALLOW}


@dataclass(slots=True)
class RuleDifferences:
    """The row of one rule.

    Attributes:
        differs: the number of calls on which its answers differ.
        undecidable: the number of calls for which the log does not determine an answer.
        changes: `before -> after` -> the number of calls.
        example: the first call that differs.
        undecidable_because: the reason for the first undecidable call.
    """

    rule: str
    differs: int = 0
    undecidable: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    example: dict[str, Any] | None = None
    undecidable_because: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"changes": dict(self.changes)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "changes": Counter(values["changes"])})

    def add(self, other: RuleDifferences) -> None:
        """Adds the differences of later calls."""
        self.differs += other.differs
        self.undecidable += other.undecidable
        self.changes.update(other.changes)
        self.example = self.example or other.example
        self.undecidable_because = self.undecidable_because or other.undecidable_because


class DifferenceTable:
    """The rows of all rules, and the number of compared calls.

    Attributes:
        same, differs, undecidable: the calls whose answers are equal, differ in some rule, or depend on values that
            the log lacks and differ in no other rule.
        unruled: the calls that the guard denied for a reason of its own, and which are not compared.
    """

    def __init__(self, rules: Iterable[str] = ()) -> None:
        self.rows = {rule: RuleDifferences(rule) for rule in rules}
        self.same = self.differs = self.undecidable = self.unruled = 0

    @property
    def calls(self) -> int:
        return self.same + self.differs + self.undecidable

    def compare(self, before: RuleAnswers, after: RuleAnswers, show: Callable[[], Mapping[str, Any]]) -> None:
        """Compares the answers to one call. `show` returns the call for people."""
        changes = _changes(before, after)
        for rule, why in {**before.undecidable, **after.undecidable}.items():
            row = self._row(rule)
            row.undecidable += 1
            row.undecidable_because = row.undecidable_because or why
        for rule, (old, new) in changes.items():
            row = self._row(rule)
            row.differs += 1
            row.changes[f"{old} -> {new}"] += 1
            if row.example is None:
                reason = after.reason(rule) or before.reason(rule)
                row.example = {**show(), "before": old, "after": new, "reason": reason}
        if changes:
            self.differs += 1
        elif before.undecidable or after.undecidable:
            self.undecidable += 1
        else:
            self.same += 1

    def add(self, other: DifferenceTable) -> None:
        """Adds the differences of later calls."""
        for rule, row in other.rows.items():
            self._row(rule).add(row)
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_dict(self) -> dict[str, Any]:
        counts = {name: getattr(self, name) for name in _COUNTS}
        return {**counts, "rules": [row.to_dict() for row in self.rows.values()]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        table = cls()
        table.rows = {row["rule"]: RuleDifferences.from_dict(row) for row in values["rules"]}
        for name in _COUNTS:
            setattr(table, name, values[name])
        return table

    def _row(self, rule: str) -> RuleDifferences:
        name = UNLISTED if rule == NO_RULE else rule
        return self.rows.setdefault(name, RuleDifferences(name))


def _changes(before: RuleAnswers, after: RuleAnswers) -> dict[str, tuple[str, str]]:
    """Rule id -> (answer before, answer after), where both are known and differ."""
    unclear = before.undecidable.keys() | after.undecidable.keys()
    pairs = {
        rule: (before.rules.get(rule, ALLOW), after.rules.get(rule, ALLOW)) for rule in {**before.rules, **after.rules}
    }
    changes = {rule: pair for rule, pair in pairs.items() if rule not in unclear and not _are_equal(*pair)}
    if changes or before.decision is None or after.decision is None or _are_equal_decisions(before, after):
        return changes
    decided = [rule for rule, (old, _) in pairs.items() if old == VIOLATED] or [NO_RULE]
    return dict.fromkeys(decided, (before.decision, after.decision))


def _are_equal(old: str, new: str) -> bool:
    return old == new or (old == VIOLATED and new in _DECISIONS)


def _are_equal_decisions(before: RuleAnswers, after: RuleAnswers) -> bool:
    """Whether two decisions are equal. A session escalates a call that a guard denies, as no approval can lift it."""
    pair = {before.decision, after.decision}
    return len(pair) == 1 or (
        pair == {"deny", "escalate"} and {"escalate", UNKNOWN} & set(after.rules.values()) != set()
    )
