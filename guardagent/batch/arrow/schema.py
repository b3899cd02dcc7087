"""The Arrow schemas of event rows, verdicts and differences, with their versions in the metadata.

A row of `EVENTS` is one of four things:

- an event: `tool`, `args` and the other columns of an event;
- a whole trace: `record` is a JSON object in the format of `guardagent audit`, and the columns of an event are null;
- an acquitted trace: `acquitted` stands for all of its events, which were judged where they were read; only the other
  columns of a trace are set;
- an unreadable row: `error` says what is wrong. Its trace gets an error instead of a verdict.

Only `trace` is required. Values of any type are JSON strings, since Arrow needs one type for a column. A null is the
same as an absent key of the JSON format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

VERSION = 1
_SURROGATE = re.compile("[\ud800-\udfff]")

_STRINGS = pa.list_(pa.string())

_ACQUITTED = pa.struct(
    [
        ("events", pa.int64()),
        ("started", pa.float64()),
        ("ended", pa.float64()),
        ("elapsed_ms", pa.float64()),  # as in `VERDICTS`
    ]
)

EVENTS = pa.schema(
    [
        ("trace", pa.string()),  # the id of the conversation; null in an unreadable row without one
        ("time", pa.float64()),  # seconds since the epoch: the time of the check
        ("position", pa.int64()),  # the order of the events of a trace; comes before `time`
        ("tool", pa.string()),
        ("args", pa.string()),  # JSON object
        ("output", pa.string()),  # JSON value
        ("failed", pa.bool_()),
        ("action", pa.string()),
        ("decision", pa.string()),
        ("tags", _STRINGS),
        ("facts", pa.string()),  # JSON object: the facts of this event
        ("state", pa.string()),  # JSON object: the state from this event on
        # The columns of a trace: null, or the same in all of its rows that have a value.
        ("trace_state", pa.string()),  # JSON object: the state at the beginning
        ("trace_facts", pa.string()),  # JSON object: the facts of the whole conversation
        ("principal", pa.string()),  # JSON object: `id`, `roles`, `tenant`
        ("task", pa.string()),  # what the agent was asked to do: repeated runs of one task have the same
        ("success", pa.bool_()),  # whether the agent did it, by the host's own judgement
        ("record", pa.string()),  # JSON object: a whole trace
        ("error", pa.string()),
        ("source", pa.string()),  # the file of the row
        ("row", pa.int64()),  # the number of the row in its file, or the offset of its line in bytes
        ("acquitted", _ACQUITTED),
    ],
    metadata={"guardagent.events": str(VERSION)},
)

LARGE_EVENTS = pa.schema(
    [pa.field(event.name, pa.large_string()) if pa.types.is_string(event.type) else event for event in EVENTS]
)  # a column of one partition may hold more than 2 GiB

_VIOLATION = pa.struct(
    [
        ("rule", pa.string()),
        ("event", pa.int64()),  # the index of the event in its trace; null at the end of the trace
        ("message", pa.string()),
        ("evidence", pa.string()),  # JSON object
    ]
)
_COUNT = pa.struct([("rule", pa.string()), ("count", pa.int64())])

VERDICTS = pa.schema(
    [
        ("trace", pa.string()),  # null for an unreadable row without a trace
        ("decision", pa.string()),  # null if there is an `error`
        ("label", pa.int8()),  # 1: denied, also if there is an `error`
        ("rules", _STRINGS),  # the violated rules
        ("reasons", _STRINGS),
        ("violations", pa.list_(_VIOLATION)),  # at most 100 of each rule
        ("counts", pa.list_(_COUNT)),  # the number of violations of each violated rule
        ("errors", _STRINGS),  # what could not be checked
        ("events", pa.int64()),  # the number of events
        ("started", pa.float64()),  # the first and the last time of an event, in seconds since the epoch
        ("ended", pa.float64()),
        ("task", pa.string()),
        ("success", pa.bool_()),
        ("elapsed_ms", pa.float64()),  # the time that judging took
        ("error", pa.string()),  # why the trace is unreadable; then there is no verdict
        ("source", pa.string()),  # the place of the error
    ],
    metadata={"guardagent.verdicts": str(VERSION)},
)

_CHANGE = pa.struct([("change", pa.string()), ("count", pa.int64())])  # `allow -> deny`

DIFFERENCES = pa.schema(
    [
        ("trace", pa.string()),  # null for an unreadable row without a trace
        ("rule", pa.string()),  # null if there is an `error`
        ("differs", pa.int64()),  # the number of calls on which the answers of the rule differ
        ("undecidable", pa.int64()),  # the number of calls for which the trace does not determine an answer
        ("changes", pa.list_(_CHANGE)),
        # The first call that differs; null if there is none.
        ("event", pa.int64()),  # its index in the trace; null at the end of the trace
        ("tool", pa.string()),
        ("args", pa.string()),  # JSON object
        ("before", pa.string()),
        ("after", pa.string()),
        ("reason", pa.string()),
        ("undecidable_because", pa.string()),  # the reason for the first undecidable call
        ("error", pa.string()),  # why the trace cannot be compared
        ("source", pa.string()),  # the place of the error
    ],
    metadata={"guardagent.differences": str(VERSION)},
)


def batch_of(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """The rows as a batch. A missing value is null, and half of a surrogate pair becomes its escape."""
    return pa.RecordBatch.from_pylist([_encodable(row) for row in rows], schema=schema)


def _encodable(row: Mapping[str, Any]) -> Mapping[str, Any]:
    text = json.dumps(row, ensure_ascii=False)
    if _SURROGATE.search(text) is None:
        return row
    return json.loads(_SURROGATE.sub(lambda match: rf"\\u{ord(match[0]):04x}", text))  # type: ignore[no-any-return]
