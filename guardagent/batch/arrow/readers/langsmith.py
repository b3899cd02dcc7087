"""Runs of LangSmith: JSON Lines or an array of runs, or a page of the API with `runs` or `items`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from guardagent.batch.arrow import readers
from guardagent.errors import InputError

_TYPES = {"chain", "embedding", "llm", "parser", "prompt", "retriever", "tool"}
_THREADS = ("thread_id", "session_id", "conversation_id")
_RECORD = "select 'inputs' in the export, and record without hiding inputs"


def spans(document: Any) -> Iterator[readers.TraceSpan]:
    """Yields the runs of a page, or the only run of the document; child runs follow their parents."""
    page = document.get("runs", document.get("items")) if type(document) is dict else None
    for record in page if type(page) is list and "run_type" not in document else [document]:
        yield from _with_children(record)


def _with_children(record: Any) -> Iterator[readers.TraceSpan]:
    runs = [record]
    while runs:
        run = runs.pop()
        yield readers.read_span(run, ("trace_id",), _place, _calls, _answers)
        if type(run) is dict and type(run.get("child_runs")) is list:
            runs += run["child_runs"]


def _place(record: Mapping[str, Any]) -> readers.TraceSpan:
    if str(record.get("run_type")).lower() not in _TYPES:
        raise InputError(
            f"'run_type' is {str(record.get('run_type'))[:40]!r}; expected one of {', '.join(sorted(_TYPES))}"
        )
    return readers.TraceSpan(
        readers.text_or_none(record.get("trace_id"), "'trace_id'"),
        readers.text_or_none(record.get("id"), "'id'"),
        _parent(record),
        _thread(record),
    )


def _parent(record: Mapping[str, Any]) -> str | None:
    ancestors = record.get("parent_run_ids")
    last = ancestors[-1] if type(ancestors) is list and ancestors else None
    return readers.text_or_none(readers.first(record, "parent_run_id") or last, "'parent_run_id'")


def _thread(record: Mapping[str, Any]) -> str | None:
    """Returns the id of the thread. `session_id` of the run itself is its project, and not meant."""
    for thread in (record.get("thread_id"), readers.first(readers.object_at(record, "metadata"), *_THREADS)):
        if thread is not None:
            return readers.text_or_none(thread, "the id of the thread")
    return readers.text_or_none(
        readers.first(readers.object_at(readers.object_at(record, "extra"), "metadata"), *_THREADS),
        "the id of the thread",
    )


def _calls(record: Mapping[str, Any]) -> Iterator[readers.Row]:
    if str(record.get("run_type")).lower() != "tool":
        return
    tool = readers.tool_name(record.get("name"))
    outputs = readers.object_at(record, "outputs")
    output, message_failed = readers.message_content(
        outputs["output"] if list(outputs) == ["output"] else outputs or _ABSENT
    )
    yield {
        "tool": tool,
        "args": _arguments(record, tool),
        "output": None if output is _ABSENT else readers.raw_output_text(output, tool) or "null",
        "time": readers.instant(record.get("start_time"), "'start_time'"),
        "failed": True if message_failed or _has_error(record) else None,
    }


def _arguments(record: Mapping[str, Any], tool: str) -> str:
    inputs = readers.object_at(record, "inputs")
    if list(inputs) == ["input"] and type(inputs["input"]) is str and not _is_traceable(record):
        raise InputError(
            f"the arguments of the call of {tool!r} have no certain names: 'inputs' has only the string 'input'; "
            "record with langchain-core 1.7.2 or later, and call tools with an object of arguments"
        )
    return readers.argument_text(inputs or None, tool, _RECORD)


def _is_traceable(record: Mapping[str, Any]) -> bool:
    """Whether the decorator of the SDK recorded the run: its inputs have the names of the function's parameters."""
    places = (readers.object_at(record, "metadata"), readers.object_at(readers.object_at(record, "extra"), "metadata"))
    return any(place.get("ls_method") == "traceable" for place in places)


_ABSENT = object()


def _has_error(record: Mapping[str, Any]) -> bool:
    return record.get("error") not in (None, "") or str(record.get("status")).lower() == "error"


def _answers(record: Mapping[str, Any]) -> Iterator[readers.Row]:
    if _parent(record) is not None:
        return
    match record.get("outputs"):
        case {"messages": [*_, {"type": "ai", "content": str(text)} as message]} if not message.get("tool_calls"):
            yield from readers.answer_rows(text, readers.instant(record.get("end_time"), "'end_time'"))
