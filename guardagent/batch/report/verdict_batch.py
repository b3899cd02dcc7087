"""A batch of verdicts as arrays: the week of each trace, and the entries of its lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.report.period import DAY
from guardagent.errors import InputError
from guardagent.types import Decision

UNDATED = 4_000_000  # a day after the year 9999, so that it comes last
MAX_RULES = 1 << 20
_EPOCH = date(1970, 1, 1)
_DAYS = ((date.min - _EPOCH).days + 7, (date.max - _EPOCH).days - 7)


class RuleCodes:
    """Numbers for rule ids: those of the manifest, then others in the order in which verdicts name them."""

    def __init__(self, ids: Iterable[str]) -> None:
        self.ids = list(ids)
        self._codes = {rule: at for at, rule in enumerate(self.ids)}

    def of(self, rules: pa.Array) -> Any:
        """Returns an array with the number of each id."""
        encoded = rules.dictionary_encode()
        if rules.null_count:
            raise InputError("a verdict has a violation without a rule; expected its id: judge the traces anew")
        codes = np.array([self._code(rule) for rule in encoded.dictionary.to_pylist()], dtype=np.int64)
        return codes[encoded.indices.to_numpy()]

    def _code(self, rule: str) -> int:
        if rule not in self._codes:
            if len(self.ids) >= MAX_RULES:
                raise InputError(f"the verdicts name more than {MAX_RULES:,} rules; expected those of one policy")
            self._codes[rule] = len(self.ids)
            self.ids.append(rule)
        return self._codes[rule]


@dataclass(frozen=True, slots=True)
class Entries:
    """The entries of a column of lists: the row and the rule of each, and its other fields."""

    rows: Any
    rules: Any
    values: Any = None


class VerdictBatch:
    """The verdicts on readable traces.

    Attributes:
        rows: the verdicts.
        weeks: the Monday of each trace, in days since 1970-01-01, or `UNDATED`.
        rules: an entry for each violated rule of a trace.
        counts: the same, with the numbers of violations.
        violations: an entry for each listed violation, with its fields.
        severities: the severity of each decision.
        unchecked: whether a trace has errors.

    Raises:
        InputError: a decision is missing or unknown, or a rule is missing.
    """

    def __init__(self, rows: pa.RecordBatch, codes: RuleCodes) -> None:
        self.rows = rows
        self.weeks = weeks_of(column(rows, "ended"))
        self.rules = Entries(_parents(rows["rules"]), codes.of(pc.list_flatten(rows["rules"])))
        counts = pc.list_flatten(rows["counts"])
        self.counts = Entries(_parents(rows["counts"]), codes.of(_field(counts, "rule")), integers(counts, "count"))
        listed = pc.list_flatten(rows["violations"])
        self.violations = Entries(_parents(rows["violations"]), codes.of(_field(listed, "rule")), listed)
        self.severities = _severities(rows["decision"])
        self.unchecked = _filled(pc.list_value_length(rows["errors"]), 0) > 0

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def per_row(self, rows: Any, amounts: Any = None) -> Any:
        """Returns the number of entries of each row, or the sum of amounts."""
        return np.bincount(rows, weights=amounts, minlength=len(self)).astype(np.int64)


def column(rows: pa.RecordBatch, name: str) -> Any:
    """A column of numbers as floats; nulls are NaN."""
    return _filled(rows[name].cast(pa.float64()), float("nan"))


def integers(structs: Any, name: str) -> Any:
    """A field of structs as integers; nulls are 0."""
    return _filled(_field(structs, name), 0)


def _field(structs: Any, name: str) -> Any:
    return pc.struct_field(structs, name)


def _filled(values: Any, missing: Any) -> Any:
    return pc.fill_null(values, missing).to_numpy(zero_copy_only=False)


def _parents(lists: Any) -> Any:
    return pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)


def _severities(decisions: Any) -> Any:
    names = [one.value for one in Decision]
    codes = pc.index_in(decisions, pa.array(names))
    if codes.null_count:
        raise InputError(
            f"a verdict has no decision or an unknown one; expected {', '.join(names)}: judge the traces anew"
        )
    return np.array([one.severity for one in Decision])[codes.to_numpy()]


def weeks_of(times: Any) -> Any:
    """The Monday of the week of each time, in UTC: as days since 1970-01-01, or `UNDATED`."""
    days = np.floor(np.nan_to_num(times, nan=np.inf, posinf=np.inf) / DAY)
    dated = (days >= _DAYS[0]) & (days <= _DAYS[1])
    days = np.where(dated, days, 0).astype(np.int64)
    return np.where(dated, days - (days + 3) % 7, UNDATED)  # day 0 was a Thursday


def week_name(monday: int) -> str:
    """The ISO week of a Monday, such as `2026-W07`, or `undated`."""
    if monday == UNDATED:
        return "undated"
    year, week, _ = (_EPOCH + timedelta(days=monday)).isocalendar()
    return f"{year:04}-W{week:02}"
