"""Exports a log as JSON Lines, which can be verified like the log itself, or as a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from typing import Any, Literal, TextIO

from guardagent.log.selection import ParsedEntry

COLUMNS = (
    "seq time kind conversation agent tool call_id decision label rules reasons errors status args args_hash facts "
    "facts_hash output output_hash violations checked_by policy permit elapsed_ms other prev hash"
).split()
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def export_entries(form: Literal["jsonl", "csv"], entries: Iterable[ParsedEntry], to: TextIO) -> int:
    """Writes entries and returns their number."""
    return _write_table(entries, to) if form == "csv" else _write_lines(entries, to)


def _write_lines(entries: Iterable[ParsedEntry], to: TextIO) -> int:
    return sum(to.write(f"{entry.line}\n") > 0 for entry, _ in entries)


def _write_table(entries: Iterable[ParsedEntry], to: TextIO) -> int:
    """Writes a row for each entry; fields without a column go into `other`."""
    writer = csv.writer(to, lineterminator="\n")
    writer.writerow(COLUMNS)
    return sum(writer.writerow(_row(one)) > 0 for one in entries)


def _row(one: ParsedEntry) -> list[Any]:
    other = {name: value for name, value in one.fields.items() if name not in COLUMNS}
    chained = {"seq": one.entry.seq, "prev": one.entry.prev, "hash": one.entry.hash}
    row = {**one.fields, **chained, "other": other or None}
    return [_cell(row.get(name)) for name in COLUMNS]


def _cell(value: Any) -> Any:
    """Quotes strings that a spreadsheet would treat as a formula."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value)
    return f"'{text}" if text.startswith(_FORMULA) else text
