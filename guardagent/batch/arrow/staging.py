"""Traces of other systems as event rows in files: their records are read twice, before an engine splits the work."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from guardagent.batch.arrow.parquet import SourceFile, Split, opened
from guardagent.batch.arrow.readers import READERS, TraceIndex, documents, load_reader, read_spans, to_rows
from guardagent.batch.arrow.schema import EVENTS

FORMAT = "rows"  # of the files that are written here: Arrow IPC in the schema `EVENTS`
_BATCH_ROWS = 4096


def is_foreign(file: SourceFile) -> bool:
    """Whether a file has the traces of another system."""
    return file.format.replace("-", "_") in READERS


def staged(files: Sequence[SourceFile], folder: Path) -> Iterator[Split]:
    """Writes the rows of files with traces of other systems into a folder, and yields their splits.

    A trace may be spread over the files of one format. Memory grows with the ids of spans.

    Raises:
        InputError: a file cannot be read.
    """
    for name in sorted({file.format for file in files}):
        reader, group = load_reader(name), [file for file in files if file.format == name]
        index = TraceIndex()
        for file in group:
            for document in _documents(file):
                index.update(TraceIndex.of(read_spans(reader, document)))
        rows = [_rows_of(file, reader, index) for file in group]
        for number, found in enumerate([*rows, map(dict, index.missing())]):
            path = folder / f"{name}-{number}.arrow"
            _write(path, found)
            yield Split(str(path), FORMAT, 0, -1)


def staged_rows(split: Split) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a file that `staged` wrote."""
    with pa.memory_map(split.path) as source, pa.ipc.open_stream(source) as reader:
        yield from reader


def _documents(file: SourceFile) -> Iterator[str]:
    with (
        opened(file.path) as data,
        io.TextIOWrapper(data, encoding="utf-8", errors="surrogateescape", newline="\n") as text,
    ):
        yield from documents(text)


def _rows_of(file: SourceFile, reader: Any, index: TraceIndex) -> Iterator[dict[str, Any]]:
    rows = (row for document in _documents(file) for row in to_rows(reader, document, index))
    return ({**row, "source": file.path, "row": number} for number, row in enumerate(rows))


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("wb") as sink, pa.ipc.new_stream(sink, EVENTS) as writer:
        waiting = iter(rows)
        while batch := list(islice(waiting, _BATCH_ROWS)):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema=EVENTS))
