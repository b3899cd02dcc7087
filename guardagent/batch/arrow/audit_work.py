"""The work of an audit: judging traces."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.arrow.bundle import PolicyBundle
from guardagent.batch.arrow.judge import judge
from guardagent.batch.arrow.schema import VERDICTS
from guardagent.batch.report import rules_for_report


@dataclass(slots=True)
class AuditCounts:
    """The number of traces by result.

    Attributes:
        traces: all traces, also unreadable ones.
        events: the events of those that were read.
        denied, unchecked, unreadable: traces that break a rule, that could not be checked, that could not be read.
        violated: rule id -> the number of traces that break it.
    """

    traces: int = 0
    events: int = 0
    denied: int = 0
    unchecked: int = 0
    unreadable: int = 0
    violated: Counter[str] = field(default_factory=Counter)

    @property
    def status(self) -> int:
        """The exit status, as that of all commands with many verdicts."""
        return 2 if self.unreadable else 3 if self.unchecked else 1 if self.denied else 0

    def __add__(self, other: AuditCounts) -> AuditCounts:
        return AuditCounts(
            self.traces + other.traces,
            self.events + other.events,
            self.denied + other.denied,
            self.unchecked + other.unchecked,
            self.unreadable + other.unreadable,
            self.violated + other.violated,
        )

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> Self:
        """Counts the verdicts of a batch in the schema `VERDICTS`."""
        readable = batch.filter(pc.is_null(batch.column("error")))
        return cls(
            batch.num_rows,
            pc.sum(readable.column("events")).as_py() or 0,
            pc.sum(readable.column("label")).as_py() or 0,
            pc.sum(pc.greater(pc.list_value_length(readable.column("errors")), 0)).as_py() or 0,
            batch.num_rows - readable.num_rows,
            Counter(pc.list_flatten(readable.column("rules")).to_pylist()),
        )

    def to_dict(self) -> dict[str, Any]:
        return {**{one.name: getattr(self, one.name) for one in fields(self)}, "violated": dict(self.violated)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "violated": Counter(values["violated"])})


@dataclass(frozen=True, slots=True)
class AuditWork:
    """Judges each trace; see `Work`."""

    name: ClassVar = "audit"
    schema: ClassVar = VERDICTS
    summary: ClassVar = AuditCounts

    policies: PolicyBundle

    @property
    def digest(self) -> str:
        return self.policies.policy_digest

    @property
    def about(self) -> Mapping[str, Any]:
        return {
            "policies": {"digest": self.policies.policy_digest, "files": list(self.policies.files)},
            "rules": rules_for_report(self.policies.policies()),
        }

    @property
    def counters(self) -> tuple[str, ...]:
        return tuple(counter.name for counter in self.policies.policies().counters)

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, AuditCounts]]:
        for batch in judge(rows, self.policies):
            yield batch, AuditCounts.of(batch)
