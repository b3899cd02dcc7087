"""The folder of an audit: its manifest, and the verdicts of its parts, batch by batch.

A batch is arrays: the week of each trace, and the entries of its lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent.batch.arrow.schema import VERDICTS, VERSION
from guardagent.batch.audit import UNKNOWN_OUTCOME
from guardagent.batch.report import DAY, EPOCH, MANIFEST_FILE, UNDATED, Manifest, parse_manifest
from guardagent.errors import ContentError, InputError, error_text
from guardagent.types import Decision

BATCH_ROWS = 8192
BATCH_VIOLATIONS = 50_000  # on average; some traces list thousands
BATCH_BYTES = 1 << 25  # on average, as far as values do not repeat; evidence may be large
_PART = re.compile(r"part-(\d+)[^/]*\.parquet")
_VERSION_KEY = b"guardagent.verdicts"
_UNUSED = ("reasons", "source")
_REDO = "remove this file and resume the audit"


class ResultsFolder:
    """The results of an audit.

    Args:
        address: a folder, or its URL for fsspec.

    Raises:
        InputError: it is not a folder of results, or cannot be read.
    """

    def __init__(self, address: str) -> None:
        import fsspec

        self.address = address
        with _reading(address):
            self._files, self._root = fsspec.core.url_to_fs(address)
            self._names: list[str] = [entry["name"] for entry in self._files.ls(self._root, detail=True)]

    @cached_property
    def manifest(self) -> Manifest:
        path = f"{self._root.rstrip('/')}/{MANIFEST_FILE}"
        if not any(name.rstrip("/").endswith(f"/{MANIFEST_FILE}") for name in self._names):
            raise InputError(
                f"{self.address}: has no '{MANIFEST_FILE}'; expected the results of 'guardagent audit ... --out FOLDER'"
                ", with '--format jsonl' for a file of traces"
            )
        with _reading(path):
            data: bytes = self._files.cat_file(path)
        try:
            return parse_manifest(data.decode("utf-8"), path)
        except UnicodeDecodeError:
            raise ContentError("is not UTF-8 text; expected JSON", path) from None

    @cached_property
    def parts(self) -> dict[int, str]:
        """The paths of the parts by number.

        Raises:
            InputError: two files have one number, or a number is too large: a trace might count twice.
        """
        names: dict[int, str] = {}
        for name in sorted(self._names):
            match = _PART.fullmatch(name.rpartition("/")[2])
            if match is None:
                continue
            number = int(match[1])
            if number in names or number >= self.manifest.partitions:
                raise InputError(
                    f"{name}: is a second part {number}, or one of more than {self.manifest.partitions}; expected the "
                    "parts of one audit: remove those of other runs"
                )
            names[number] = name
        return dict(sorted(names.items()))

    @property
    def missing(self) -> list[int]:
        """The numbers of the parts that are not there."""
        return [number for number in range(self.manifest.partitions) if number not in self.parts]

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yields the path of a part and verdicts of it, without the columns that no figure needs.

        Raises:
            InputError: a part is corrupt, or has another schema.
        """
        for path in self.parts.values():
            yield from ((path, rows) for rows in self._batches(path))

    def _batches(self, path: str) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        with _reading(path, _REDO), self._files.open(path, "rb") as stream:
            file = pq.ParquetFile(stream)
            _require_verdicts(file.schema_arrow, path)
            columns = [name for name in VERDICTS.names if name not in _UNUSED]
            yield from file.iter_batches(_batch_rows(file.metadata), columns=columns)


def _batch_rows(metadata: Any) -> int:
    """The number of rows that keeps a batch small: fewer if verdicts list many violations."""
    groups = [metadata.row_group(at) for at in range(metadata.num_row_groups)]
    values = sum(max(group.column(at).num_values for at in range(group.num_columns)) for group in groups)
    size = sum(group.total_byte_size for group in groups)
    limits = (BATCH_VIOLATIONS * metadata.num_rows // max(1, values), BATCH_BYTES * metadata.num_rows // max(1, size))
    return max(1, min(BATCH_ROWS, *map(int, limits)))


def _require_verdicts(schema: pa.Schema, path: str) -> None:
    version = (schema.metadata or {}).get(_VERSION_KEY, b"").decode("utf-8", "replace")
    if version != str(VERSION):
        raise ContentError(
            f"has {f'verdicts of version {version}' if version else 'no verdicts of an audit'}; expected version "
            f"{VERSION}: use the release of the audit, or judge the traces anew",
            path,
        )
    for field in VERDICTS:
        data_type = schema.field(field.name).type if field.name in schema.names else None
        if data_type != field.type:
            raise ContentError(
                f"column '{field.name}' is {data_type or 'missing'}; expected {field.type}: judge the traces anew", path
            )


@contextmanager
def _reading(path: str, remedy: str = "expected the folder of an audit that can be read") -> Iterator[None]:
    """Turns errors of files, stores and Parquet into errors that name the file."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{path}: no such file or folder; {remedy}") from None
    except NotADirectoryError:
        raise InputError(f"{path}: is not a folder; {remedy}") from None
    except (OSError, ValueError, ImportError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error_text(error)}; {remedy}") from None


MAX_RULES = 1 << 20
_DAYS = ((date.min - EPOCH).days + 7, (date.max - EPOCH).days - 7)


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
        codes: the numbers of rules.
        weeks: the Monday of each trace, in days since 1970-01-01, or `UNDATED`.
        rules: an entry for each violated rule of a trace.
        counts: the same, with the numbers of violations.
        violations: an entry for each listed violation, with its fields.
        severities: the severity of each decision.
        unchecked: whether a trace has errors.
        unknown_outcomes: the rows of traces with an error about a call whose outcome is unknown.

    Raises:
        InputError: a decision is missing or unknown, or a rule is missing.
    """

    def __init__(self, rows: pa.RecordBatch, codes: RuleCodes) -> None:
        self.rows, self.codes = rows, codes
        self.weeks = weeks_of(column(rows, "ended"))
        self.rules = Entries(_parents(rows["rules"]), codes.of(pc.list_flatten(rows["rules"])))
        counts = pc.list_flatten(rows["counts"])
        self.counts = Entries(
            _parents(rows["counts"]), codes.of(pc.struct_field(counts, "rule")), integers(counts, "count")
        )
        listed = pc.list_flatten(rows["violations"])
        self.violations = Entries(_parents(rows["violations"]), codes.of(pc.struct_field(listed, "rule")), listed)
        self.severities = _severities(rows["decision"])
        self.unchecked = _filled(pc.list_value_length(rows["errors"]), 0) > 0
        about_outcomes = pc.match_substring(pc.list_flatten(rows["errors"]), UNKNOWN_OUTCOME)
        self.unknown_outcomes = _parents(rows["errors"])[about_outcomes.to_numpy(zero_copy_only=False)]

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
    return _filled(pc.struct_field(structs, name), 0)


def _filled(values: Any, missing: Any) -> Any:
    return pc.fill_null(values, missing).to_numpy(zero_copy_only=False)


def _parents(lists: Any) -> Any:
    return pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)


def _severities(decisions: Any) -> Any:
    names = [decision.value for decision in Decision]
    codes = pc.index_in(decisions, pa.array(names))
    if codes.null_count:
        raise InputError(
            f"a verdict has no decision or an unknown one; expected {', '.join(names)}: judge the traces anew"
        )
    return np.array([decision.severity for decision in Decision])[codes.to_numpy()]


def weeks_of(times: Any) -> Any:
    """The Monday of the week of each time, in UTC: as days since 1970-01-01, or `UNDATED`."""
    days = np.floor(np.nan_to_num(times, nan=np.inf, posinf=np.inf) / DAY)
    dated = (days >= _DAYS[0]) & (days <= _DAYS[1])
    days = np.where(dated, days, 0).astype(np.int64)
    return np.where(dated, days - (days + 3) % 7, UNDATED)  # day 0 was a Thursday
