"""Reads a split as record batches in the schema `EVENTS`."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from guardagent.batch.arrow.parquet import Split
from guardagent.batch.arrow.staging import FORMAT as STAGED
from guardagent.batch.arrow.staging import staged_rows


def rows_of(split: Split) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a split. A line that cannot be read becomes a row with an `error`.

    Raises:
        InputError: the file cannot be read, or its columns are not those of `EVENTS`.
    """
    if split.format == "parquet":
        from guardagent.batch.arrow.parquet_rows import parquet_rows

        return parquet_rows(split)
    if split.format == STAGED:
        return staged_rows(split)
    from guardagent.batch.arrow.line_rows import line_rows

    return line_rows(split)
