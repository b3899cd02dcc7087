"""Observations of Langfuse: JSON Lines or an array of them, a page of the API with `data`, or a downloaded trace.

The API writes keys such as `traceId`, and the export to blob storage such as `trace_id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from guardagent._support import json_values
from guardagent.batch.arrow import readers
from guardagent.errors import InputError

_TYPES = {
    "AGENT", "CHAIN", "EMBEDDING", "EVALUATOR", "EVENT", "GENERATION", "GUARDRAIL", "RETRIEVER", "SPAN", "TOOL",
}  # fmt: skip
_LEVELS = (None, "DEBUG", "DEFAULT", "WARNING", "ERROR")
_RECORD = "export the field group 'io', and record the input of tools"


def spans(document: Any) -> Iterator[readers.TraceSpan]:
    """Yields the observations of a page or a trace, or the only one of the document."""
    if type(document) is dict and "type" not in document:
        trace = document.get("trace", document)
        if type(trace) is dict and type(trace.get("id")) is str and type(_session(trace)) is str:
            yield readers.TraceSpan(trace["id"], conversation=_session(trace))
        listed = next((document[key] for key in ("data", "observations") if type(document.get(key)) is list), None)
        if listed is not None:
            yield from map(_read, listed)
            return
    yield _read(document)


def _read(record: Any) -> readers.TraceSpan:
    return readers.read_span(record, ("traceId", "trace_id"), _place, _calls, _answers)


def _place(record: Mapping[str, Any]) -> readers.TraceSpan:
    if _type(record) not in _TYPES:
        raise InputError(f"'type' is {str(record.get('type'))[:40]!r}; expected one of {', '.join(sorted(_TYPES))}")
    return readers.TraceSpan(
        readers.text_or_none(readers.first(record, "traceId", "trace_id"), "'traceId'"),
        readers.text_or_none(record.get("id"), "'id'"),
        _parent(record),
        readers.text_or_none(_session(record), "'sessionId'"),
    )


def _type(record: Mapping[str, Any]) -> str:
    return str(record.get("type")).upper()


def _session(record: Mapping[str, Any]) -> Any:
    return readers.first(record, "sessionId", "session_id")


def _parent(record: Mapping[str, Any]) -> str | None:
    if readers.first(record, "isRootObservation", "is_root_observation") is True:  # its parent is a span of the host
        return None
    return readers.text_or_none(
        readers.first(record, "parentObservationId", "parent_observation_id"), "'parentObservationId'"
    )


def _calls(record: Mapping[str, Any]) -> Iterator[readers.Row]:
    if _type(record) != "TOOL":
        return
    level = record.get("level") or None
    if level not in _LEVELS:
        raise InputError(f"'level' is {str(level)[:40]!r}; expected one of DEBUG, DEFAULT, WARNING, ERROR")
    tool = readers.tool_name(record.get("name"))
    written = readers.output_text(readers.first(record, "output"), tool)
    output, message_failed = readers.message_content(None if written is None else json_values.loads(written))
    yield {
        "tool": tool,
        "args": _arguments(record.get("input"), tool),
        "output": None if written is None else readers.output_text(output, tool) or "null",
        "time": readers.instant(readers.first(record, "startTime", "start_time"), "'startTime'"),
        "failed": True if level == "ERROR" or message_failed else None,
    }


def _arguments(value: Any, tool: str) -> str:
    written = readers.argument_text(value, tool, _RECORD)
    match json_values.loads(written):
        case {"args": [*positional], "kwargs": dict(named), **others} if not others:
            if positional:
                raise InputError(
                    f"the arguments of the call of {tool!r} have no names: '@observe' recorded {len(positional)} "
                    "by position; call the tool with keywords, or record its input yourself"
                )
            return readers.argument_text(named, tool, _RECORD)
    return written


def _answers(record: Mapping[str, Any]) -> Iterator[readers.Row]:
    """Yields the final answer: the output of an outermost agent, if it is text."""
    if _type(record) == "AGENT" and _parent(record) is None and record.get("level") != "ERROR":
        written = readers.output_text(readers.first(record, "output"), "the agent")
        answer = None if written is None else json_values.loads(written)
        if type(answer) is str and answer:
            yield from readers.answer_rows(
                answer, readers.instant(readers.first(record, "endTime", "end_time"), "'endTime'")
            )
