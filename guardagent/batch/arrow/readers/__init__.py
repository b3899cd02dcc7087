"""Readers of traces that other systems recorded: each turns their records into event rows.

A reader is a module of this folder, named after its format, with `spans(document)`: it yields a `TraceSpan` for each
record of a document, which is any JSON value. It raises nothing: what cannot be read becomes a row with an `error`. The
page `docs/traces.md` has the columns that each reader fills, and what its format does not say.

A record that might be a call of a tool is an event or an error. Nothing unknown reads as absent: arguments that were
not recorded are an error, and `failed` is null where the format has no error, so that the policy's `failed_output`
decides.

A format often names the conversation of a trace in one record only, and in any order. So a file is read twice: first
into a `TraceIndex`, then into rows. `to_events` does both.

Readers share the functions at the end, which read the fields of a record, and raise an InputError that says what was
expected.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TextIO

from guardagent._support import json_values
from guardagent._support.plugins import Plugins
from guardagent.errors import InputError, UnknownNameError
from guardagent.policy.language import ANSWER, answer_arguments

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["READERS", "TraceIndex", "TraceSpan", "documents", "load_reader", "read_spans", "to_events", "to_rows"]

# --- documents of a file: its lines, or the elements of an array

_CHUNK = 1 << 20
_SPACE = re.compile(r"[\s,]*+")
MAX_CHARACTERS = 64 << 20


def documents(file: TextIO, limit: int = MAX_CHARACTERS) -> Iterator[str]:
    """Yields the JSON values of a file: one for each line, for each element of an array, or the only one.

    At most one value is in memory. What follows a syntax error in an array is one more value, and invalid.

    Args:
        file: the text.
        limit: the most characters of a value. A longer one is cut, and so invalid.
    """
    start = next((line for line in iter(lambda: file.readline(_CHUNK), "") if line.strip("\ufeff \t\r\n")), "")
    start = start.lstrip("\ufeff \t\r\n")
    if start[:1] == "[":
        yield from _elements(start[1:], file, limit)
    elif _is_line(start):
        yield from _lines(start, file, limit)
    else:
        yield start + file.read(limit)


def _is_line(start: str) -> bool:
    """Whether the file has a value in each line: the first line is one, or is too long to tell, or invalid."""
    try:
        json.loads(start)
    except (ValueError, RecursionError):
        return start.rstrip()[-1:] not in ("{", "[", ",")
    return True


def _lines(start: str, file: TextIO, limit: int) -> Iterator[str]:
    line = start if start.endswith("\n") else start + file.readline(limit)
    while line:
        if line.strip():
            yield line
        while line and not line.endswith("\n"):  # the rest of a line that is too long
            line = file.readline(_CHUNK)
        line = file.readline(limit)


def _elements(text: str, file: TextIO, limit: int) -> Iterator[str]:
    decode, size, at = json.JSONDecoder().raw_decode, _CHUNK, 0
    while not text.startswith("]", at := _value_at(text, at)):
        try:
            end = decode(text, at)[1]
        except (ValueError, RecursionError):
            text, at = text[at:], 0
            more = file.read(size) if len(text) <= limit else ""
            if not more:
                if text:
                    yield text
                return
            text, size = text + more, 2 * size  # a long value is not scanned often
        else:
            yield text[at:end]
            at, size = end, _CHUNK


def _value_at(text: str, at: int) -> int:
    """Returns the position after white space and commas."""
    space = _SPACE.match(text, at)
    return space.end() if space else at


# --- spans

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A record of another system: its place in its trace, and the event rows that it gives, still without `trace`.

    Attributes:
        trace: the id of the trace; None if it is unknown.
        id: the id of the record within the trace; None if it has none.
        parent: the id of the record that encloses it; None for an outermost one, or if another service recorded it.
        conversation: the id of the conversation, which can consist of several traces; None if the record has none.
        rows: events, and errors in place of events that cannot be read.
    """

    trace: str | None = None
    id: str | None = None
    parent: str | None = None
    conversation: str | None = None
    rows: tuple[Row, ...] = ()


def read_span(
    record: Any, trace_keys: Iterable[str], place: Callable[[Any], TraceSpan], *parts: Callable[[Any], Iterable[Row]]
) -> TraceSpan:
    """Returns the span of a record.

    Args:
        record: any JSON value.
        trace_keys: the keys of the trace's id, so that an error can name the trace.
        place: returns the span without rows.
        parts: each yields some of the rows. An InputError in one of them becomes a row with an error.
    """
    if type(record) is not dict:
        return TraceSpan(rows=(error_row(f"the record is {kind(record)}; expected an object"),))
    try:
        span = place(record)
    except (InputError, RecursionError) as error:
        known = [record[key] for key in trace_keys if is_text(record.get(key))]
        return TraceSpan(known[0] if known else None, rows=(error_row(error),))
    rows = [row for part in parts for row in _rows(part, record)]
    if rows and span.trace is None and span.conversation is None:
        rows.append(error_row("the record has no id of a trace; expected one"))
    return replace(span, rows=tuple(rows))


def _rows(part: Callable[[Any], Iterable[Row]], record: Any) -> Iterator[Row]:
    try:
        yield from tuple(part(record))
    except (InputError, RecursionError) as error:
        yield error_row(error)


def error_row(error: Exception | str) -> Row:
    return {"error": "the record is nested too deep" if isinstance(error, RecursionError) else str(error)}


def is_text(value: Any) -> bool:
    """Whether a value is a non-empty string that UTF-8 can encode, as table columns require."""
    try:
        return type(value) is str and bool(value.encode("utf-8"))
    except UnicodeEncodeError:
        return False


def kind(value: Any) -> str:
    """Returns the JSON type of a value for messages."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "missing"}
    return names.get(type(value), "a number")


def _sets() -> defaultdict[str, set[str]]:
    return defaultdict(set)


# --- the conversation of each trace


@dataclass(slots=True)
class TraceIndex:
    """The conversations and the span ids of the traces of a file, in any order; that of several files is their union.

    Memory grows with the number of spans, by about the length of their ids.
    """

    conversations: defaultdict[str, set[str]] = field(default_factory=_sets)
    spans: defaultdict[str, set[str]] = field(default_factory=_sets)
    parents: defaultdict[str, set[str]] = field(default_factory=_sets)
    with_rows: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, spans: Iterable[TraceSpan]) -> TraceIndex:
        """Returns the index of spans."""
        index = cls()
        for span in spans:
            index._add(span)
        return index

    def _add(self, span: TraceSpan) -> None:
        if span.trace is None:
            return
        for label, value in (
            (self.conversations, span.conversation),
            (self.spans, span.id),
            (self.parents, span.parent),
        ):
            if value is not None:
                label[span.trace].add(value)
        if span.rows or span.conversation is not None:
            self.with_rows.add(span.trace)

    def update(self, other: TraceIndex) -> None:
        """Adds the index of another file."""
        for mine, theirs in (
            (self.conversations, other.conversations),
            (self.spans, other.spans),
            (self.parents, other.parents),
        ):
            for trace, values in theirs.items():
                mine[trace] |= values
        self.with_rows |= other.with_rows

    def keys(self, trace: str | None, own: str | None = None) -> tuple[str | None, ...]:
        """Returns the conversations of a trace, or its own id if it is in none; more than one is a contradiction."""
        trace_keys = {*self.conversations.get(trace or "", ()), *([own] if own is not None else [])}
        return tuple(sorted(trace_keys)) or (trace,)

    def missing(self) -> Iterator[Row]:
        """Yields an error row for each trace with calls in which spans have a parent that was not exported."""
        for trace in sorted(self.with_rows):
            absent = self.parents.get(trace, set()) - self.spans.get(trace, set())
            if absent:
                message = (
                    f"the trace {trace!r} is incomplete: {len(absent)} of its spans are missing, for example "
                    f"{min(absent)!r}, which others have as parent; export whole traces, without sampling or a filter"
                )
                yield from ({"trace": key} | dict(error_row(message)) for key in self.keys(trace))


# --- rows

_BATCH = 1024


def to_events(
    reader: Any, lines: Iterable[str], *, source: str | None = None, partial: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yields the event rows of a file in the schema `EVENTS`.

    Args:
        reader: the reader of its format.
        lines: its JSON documents. They are read twice, so an iterator is an error.
        source: the name of the file, for the column of this name.
        partial: also accept a trace in which the parent of a span is missing, because others were filtered out.

    Raises:
        InputError: `lines` can be iterated only once.
    """
    import pyarrow as pa

    from guardagent.batch.arrow.schema import EVENTS

    if iter(lines) is lines:
        raise InputError("the lines can be read only once; expected a list, or an object that can be iterated twice")
    index = TraceIndex.of(chain.from_iterable(read_spans(reader, line) for line in lines))
    numbered = (row | {"row": at} for at, line in enumerate(lines, 1) for row in to_rows(reader, line, index))
    rows = (row | {"source": source} for row in chain(numbered, () if partial else map(dict, index.missing())))
    while batch := list(islice(rows, _BATCH)):
        yield pa.RecordBatch.from_pylist(batch, schema=EVENTS)


def read_spans(reader: Any, line: str) -> Iterator[TraceSpan]:
    """Yields the spans of a JSON document; one with an error if it is not acceptable JSON."""
    try:
        document = json_values.loads(line)
    except ValueError as error:
        yield TraceSpan(rows=(error_row(f"not acceptable JSON: {error}"),))
    else:
        yield from reader.spans(document)


def to_rows(reader: Any, line: str, index: TraceIndex) -> Iterator[dict[str, Any]]:
    """Yields the event rows of a JSON document. Their `trace` is the conversation, or the trace if that is unknown.

    Args:
        reader: the reader of its format.
        line: the document.
        index: the index of all files, which knows the conversations of traces.
    """
    for span in read_spans(reader, line):
        keys = index.keys(span.trace, span.conversation)
        rows = span.rows if len(keys) == 1 else _contradiction(span, keys)
        yield from ({"trace": key, **row} for row in rows for key in keys)


def _contradiction(span: TraceSpan, keys: Iterable[str | None]) -> Iterator[Row]:
    if span.rows:
        names = " and ".join(map(repr, keys))
        yield error_row(f"the trace {span.trace!r} names several conversations, {names}; expected one")


READERS = Plugins("trace format", __name__, ("spans",))


def load_reader(name: str) -> Any:
    """Returns the reader of a format; `openai-agents` and `openai_agents` name the same.

    Raises:
        UnknownNameError: there is no reader of this name.
    """
    known = [reader.replace("_", "-") for reader in READERS]
    if name.replace("_", "-") not in known:
        raise UnknownNameError("trace format", name, ["jsonl", "parquet", *known])
    return READERS.load(name.replace("-", "_"))


# --- fields of a record

_CUT = re.compile(r"[\[(<][^\[(<]{0,40}\btruncated[\])>]\s*$", re.IGNORECASE)
_OPENINGS = re.compile(r"""\s*(\{|\[\s*["'{\[])""")


def first(record: Mapping[str, Any], *keys: str) -> Any:
    """Returns the value of the first key that has one, since some exports write `trace_id` and others `traceId`."""
    return next((record[key] for key in keys if record.get(key) not in (None, "")), None)


def text_or_none(value: Any, name: str) -> str | None:
    """Returns a string; None if it is null or empty."""
    if value is None or value == "":
        return None
    if not is_text(value):
        raise InputError(f"{name} is {kind(value)}; expected a string of Unicode characters")
    return str(value)


def tool_name(value: Any) -> str:
    """Returns the name of the called tool."""
    name = text_or_none(value, "the name of the tool")
    if name is None:
        raise InputError("a call has no name of a tool; expected one")
    if name == ANSWER:
        raise InputError(f"a tool has the name of the final answer in rules, {ANSWER!r}; rename it before the export")
    return name


def argument_text(value: Any, tool: str, remedy: str) -> str:
    """Returns the arguments of a call as JSON text: from an object, or from a string that has one.

    Args:
        value: the value of the field; null and the empty string mean that the arguments are unknown.
        tool: the name of the tool, for messages.
        remedy: how to record arguments, for messages.
    """
    if value is None or value == "":
        raise InputError(f"the arguments of the call of {tool!r} were not recorded; {remedy}")
    arguments = _parsed(value, f"the arguments of the call of {tool!r}")
    if type(arguments) is not dict:
        raise InputError(
            f"the arguments of the call of {tool!r} are {kind(arguments)}; expected a JSON object. "
            "They may be cut off: record them without a limit on their length"
        )
    return json_text(arguments, f"the arguments of the call of {tool!r}")


def output_text(value: Any, tool: str) -> str | None:
    """Returns the output of a call as JSON text, also of a string that is JSON; None if it was not recorded."""
    name = f"the output of {tool!r}"
    return None if value is None else json_text(_parsed(value, name), name)


def raw_output_text(value: Any, tool: str) -> str | None:
    """Returns the output of a call as JSON text; a string remains a string."""
    refuse_cut(value, f"the output of {tool!r}")
    return None if value is None else json_text(value, f"the output of {tool!r}")


def message_content(value: Any) -> tuple[Any, bool]:
    """Returns the content of a tool message of LangChain in any of its forms, and whether it tells of an error.

    Other values are their own content.
    """
    match value:
        case (
            {"type": "tool", "content": content, "tool_call_id": _, **fields}
            | {"type": "tool", "data": {"content": content, "tool_call_id": _, **fields}}
            | {"lc": _, "kwargs": {"content": content, "tool_call_id": _, **fields}}
        ):
            return content, fields.get("status") == "error"
    return value, False


def _parsed(value: Any, name: str) -> Any:
    """Returns the value of a string that is JSON; other values as they are."""
    refuse_cut(value, name)
    if type(value) is not str:
        return value
    try:
        return json_values.loads(value)
    except ValueError:
        closing = value.rstrip()[-1:]
        if (opening := _OPENINGS.match(value)) and closing != {"{": "}", "[": "]"}[opening[1][0]]:
            raise InputError(
                f"{name} begins like JSON and is cut off; record it without a limit on its length"
            ) from None
        return value


def refuse_cut(value: Any, name: str) -> None:
    """Rejects a value that says of itself that it is incomplete."""
    parts = [value]
    while parts:
        part = parts.pop()
        if type(part) is dict:
            parts += part.values()
            cut = part.get("truncated") is True and "preview" in part
        elif type(part) is list:
            parts, cut = parts + part, False
        else:
            cut = type(part) is str and _CUT.search(part[-60:]) is not None
        if cut:
            raise InputError(f"{name} is truncated; record it without a limit on its length")


def json_text(value: Any, name: str) -> str:
    """Returns JSON text in ASCII, so that it has no lone surrogates."""
    try:
        return json.dumps(value, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} cannot be written as JSON: {error}") from None


def instant(value: Any, name: str) -> float:
    """Returns the seconds since the epoch of an ISO 8601 string; without a zone it is in UTC."""
    if type(value) is not str:
        raise InputError(f"{name} is {kind(value)}; expected a time such as '2026-01-31T09:30:00Z'")
    try:
        moment = dt.datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, OverflowError):
        raise InputError(f"{name} is {value[:40]!r}; expected a time such as '2026-01-31T09:30:00Z'") from None


def object_at(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Returns the object at a key; an empty one if it is null."""
    value = record.get(key)
    if value is not None and type(value) is not dict:
        raise InputError(f"{key!r} is {kind(value)}; expected an object")
    return value or {}


def list_at(record: Mapping[str, Any], key: str) -> list[Any]:
    """Returns the list at a key; an empty one if it is null."""
    value = record.get(key)
    if value is not None and type(value) is not list:
        raise InputError(f"{key!r} is {kind(value)}; expected a list")
    return value or []


def answer_rows(text: Any, time: float) -> Iterator[Row]:
    """Yields the step of the final answer, unless it is empty."""
    if type(text) is str and text:
        refuse_cut(text, "the final answer")
        args = json_text(dict(answer_arguments(text)), "the final answer")
        yield {"tool": ANSWER, "args": args, "time": time, "failed": False}
