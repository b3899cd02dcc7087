"""Readers of traces that other systems recorded: each turns their records into event rows.

A reader is a module of this folder, named after its format, with

- `NAME`: the name of the format, such as `otel`;
- `KNOWS`: the columns that it fills, each with the field of the format;
- `UNKNOWN`: what the format does not say;
- `spans(document)`: yields a `TraceSpan` for each record of a document, which is any JSON value. It raises nothing:
  what cannot be read becomes a row with an `error`.

A record that might be a call of a tool is an event or an error. Nothing unknown reads as absent: arguments that were
not recorded are an error, and `failed` is null where the format has no error, so that the policy's `failed_output`
decides.

A format often names the conversation of a trace in one record only, and in any order. So a file is read twice: first
into a `TraceIndex`, then into rows. `to_events` does both.
"""

from __future__ import annotations

from typing import Any

from guardagent._support.plugins import Plugins
from guardagent.batch.arrow.readers._documents import documents
from guardagent.batch.arrow.readers._rows import read_spans, to_events, to_rows
from guardagent.batch.arrow.readers._spans import TraceSpan
from guardagent.batch.arrow.readers._trace_index import TraceIndex

__all__ = ["READERS", "TraceIndex", "TraceSpan", "documents", "load_reader", "read_spans", "to_events", "to_rows"]

READERS = Plugins("trace format", __name__, ("NAME", "KNOWS", "UNKNOWN", "spans"))


def load_reader(name: str) -> Any:
    """Returns the reader of a format; `openai-agents` and `openai_agents` name the same.

    Raises:
        UnknownNameError: there is no reader of this name.
    """
    return READERS.load(name.replace("-", "_"))
