"""Traces of the OpenAI Agents SDK: items of a tracing exporter, each as `item.export()` returns it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from guardagent.batch.arrow import readers
from guardagent.errors import InputError

_OTHER_TYPES = {
    "agent", "custom", "generation", "guardrail", "mcp_tools", "response", "speech", "speech_group", "transcription",
}  # fmt: skip
_RECORD = "run with 'trace_include_sensitive_data=True', and not through a wrapper that leaves the input out"


def spans(document: Any) -> Iterator[readers.TraceSpan]:
    """Yields the items of a request to the tracing API (`data`), or the only item of the document."""
    listed = document.get("data") if type(document) is dict and "object" not in document else None
    for record in listed if type(listed) is list else [document]:
        keys = ("id",) if type(record) is dict and record.get("object") == "trace" else ("trace_id",)
        yield readers.read_span(record, keys, _place, _calls)


def _place(record: Mapping[str, Any]) -> readers.TraceSpan:
    match record.get("object"):
        case "trace":
            conversation = readers.text_or_none(record.get("group_id"), "'group_id'")
            return readers.TraceSpan(readers.text_or_none(record.get("id"), "'id'"), conversation=conversation)
        case "trace.span":
            trace, own, parent = (
                readers.text_or_none(record.get(name), repr(name)) for name in ("trace_id", "id", "parent_id")
            )
            return readers.TraceSpan(trace, own, parent)
    raise InputError(f"'object' is {str(record.get('object'))[:40]!r}; expected 'trace' or 'trace.span'")


def _calls(record: Mapping[str, Any]) -> Iterator[readers.Row]:
    if record["object"] == "trace":
        return
    data = readers.object_at(record, "span_data")
    match data.get("type"):
        case "function":
            columns = _function(data)
        case "handoff":
            columns = _handoff(data)
        case str(other) if other in _OTHER_TYPES:
            return
        case other:
            raise InputError(f"the type of 'span_data' is {str(other)[:40]!r}, which this reader does not know")
    time, failed = (
        readers.instant(record.get("started_at"), "'started_at'"),
        True if record.get("error") is not None else None,
    )
    yield {**columns, "time": time, "failed": failed}


def _function(data: Mapping[str, Any]) -> readers.Row:
    tool = readers.tool_name(data.get("name"))
    written = data.get("input")
    args = readers.argument_text({} if written == "" else written, tool, _RECORD)
    return {"tool": tool, "args": args, "output": readers.raw_output_text(data.get("output"), tool)}


def _handoff(data: Mapping[str, Any]) -> readers.Row:
    """A hand-off, as the adapter of the SDK judges it."""
    agent = readers.text_or_none(data.get("to_agent"), "'to_agent'")
    if agent is None:
        raise InputError("a hand-off has no 'to_agent'; expected the name of an agent")
    return {"tool": "handoff", "args": json.dumps({"to": agent}), "action": "handoff"}
