"""Cases and traces from lines of JSON, the lines of a file of any size, and calls as people type them.

Unknown keys are ignored and never shown to a rule. A near miss of a known key (`histroy`, or `arguments` for `args`) is
an error: its value would be lost, and a lost value could lead to an allowance. Every error has a location.

A file is read in chunks of whole lines, each with its position and the digest of the file up to there.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from io import BufferedReader
from pathlib import Path
from typing import Any

from guardagent._support import json_values
from guardagent.batch.json_object import ARGS, FACTS, OBJECT, OBJECTS, TOOL, Instant, JsonObject, KeyType
from guardagent.batch.traces import BOOLEAN, CALL, STEP, TraceStep, checked_step, plain_step, status_of
from guardagent.errors import ContentError, InputError
from guardagent.types import EMPTY, Event
from guardagent.types.values import SessionPrincipal, read_principal

# --- records

_ID = KeyType(object, "a string")
_PRINCIPAL = KeyType(dict, "a principal: an object with 'id', and with 'roles' and 'tenant' if they are known")
_PROPOSED = {"tool": TOOL, "args": ARGS}
_CASE = {
    "id": _ID,
    "history": OBJECTS,
    "proposed": OBJECT,
    "state": OBJECT,
    "context": FACTS,
    "user_confirmed": BOOLEAN,
    "facts": FACTS,
    "principal": _PRINCIPAL,
    "messages": OBJECTS,
    "label": KeyType(int, "0 or 1"),
    "rules": KeyType(list, "a list of the ids of policies"),
}
_MESSAGE = {"role": KeyType(str, "a role, such as 'user'")}
_TASK = {"task": KeyType(str, "a string"), "success": BOOLEAN}
_TRACE = {"id": _ID, "events": OBJECTS, "state": OBJECT, "facts": FACTS, "principal": _PRINCIPAL}
_OF_TRACE = {  # in the record of a single event
    "trace": _ID,
    "position": KeyType(int, "a whole number"),
    "trace_state": OBJECT,
    "trace_facts": FACTS,
    "principal": _PRINCIPAL,
    **_TASK,
}


@dataclass(frozen=True, slots=True)
class Case:
    """A proposed call with its history.

    Attributes:
        id: the id of the case and its verdict.
        history: the earlier events, in order.
        proposed: the call to judge.
        state: the state; None if the case has none, so that it is unknown.
        facts: `user_confirmed` and `context`, and `facts` over them.
        now: the time of the proposed call; None if the case has none, so that it is unknown.
        principal: on whose behalf the agent acts; None if it is unknown.
        messages: the chat messages (`role`, `content`) so far; empty if they are unknown.
        label, rules: the expectation; None if the case has none. No rule sees them.
    """

    id: str | int
    history: tuple[Event, ...]
    proposed: Event
    state: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    label: int | None = None
    rules: tuple[str, ...] | None = None
    now: Instant | None = None
    principal: SessionPrincipal | None = None
    messages: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """A complete conversation."""

    id: str | int
    steps: tuple[TraceStep, ...]
    state: Mapping[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    principal: SessionPrincipal | None = None


def read_case(text: str, path: Path | str, line: int, failed_output: Any = None) -> Case:
    """Reads a case from a line of a file.

    Args:
        text: the line.
        path: the file, for messages.
        line: the line number, for messages.
        failed_output: the compiled pattern of the outputs of failed calls, if the policy has one.

    Raises:
        ContentError: the line is not a case; with location and expectation.
    """
    record = JsonObject.of_line(text, path, line, _CASE)
    label = record.values.get("label")
    if label not in (None, 0, 1):
        raise record.wrong("label", label, "0 or 1")
    history = record.objects_at("history", CALL) if "history" in record.values else ()
    return Case(
        record.id(),
        tuple(_call(part, failed_output) for part in history),
        _proposal(record.object_at("proposed", _PROPOSED)),
        record.values.get("state"),
        _case_facts(record.values),
        label,
        record.strings("rules"),
        record.instant("now"),
        _principal(record),
        tuple(part.values for part in record.objects_at("messages", _MESSAGE)) if "messages" in record.values else (),
    )


def _case_facts(values: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a case: `facts` override `user_confirmed` and `context`."""
    base = {"user_confirmed": values.get("user_confirmed"), "context": values.get("context") or {}}
    return {**base, **(values.get("facts") or {})}


def read_trace(text: str, path: Path | str, line: int, failed_output: Any = None) -> Trace:
    """Reads a trace from a line of a file; arguments and errors as for `read_case`."""
    return _trace(JsonObject.of_line(text, path, line, _TRACE), failed_output)


def trace_of(value: Any, failed_output: Any = None, ignored: Mapping[str, bool] = EMPTY) -> Trace:
    """Reads a trace from a decoded record; raises an InputError as `read_trace` does, without a place.

    Such a record may also have `task` and `success`. `ignored` is as for `plain_step`.
    """
    return _trace(JsonObject.of_value(value, InputError, {**_TRACE, **_TASK}), failed_output, ignored)


def event_of(value: Any, failed_output: Any = None, ignored: Mapping[str, bool] = EMPTY) -> TraceStep:
    """Reads an event of a trace from a decoded record that holds only this event.

    Such a record also has the keys of its trace: `trace`, `trace_state`, `trace_facts`, `principal`, `task`, `success`.
    """
    record = JsonObject.of_value(value, InputError, {})
    JsonObject({key: value[key] for key in _OF_TRACE if key in value}, InputError).checked(_OF_TRACE)
    own = {key: value for key, value in record.values.items() if key not in _OF_TRACE}
    return plain_step(own, failed_output, ignored) or checked_step(record.checked({**STEP, **_OF_TRACE}), failed_output)


def principal_of(value: Any) -> SessionPrincipal | None:
    """Reads a principal from a decoded record."""
    return _principal(JsonObject.of_value({"principal": value}, InputError, {"principal": _PRINCIPAL}))


def _trace(record: JsonObject, failed_output: Any, ignored: Mapping[str, bool] = EMPTY) -> Trace:
    if "entry" in record.values and "events" not in record.values:
        raise record.error("", "is an entry of an audit log; expected a trace: 'guardagent replay' judges logs")
    if "trace" in record.values and "events" not in record.values:
        raise record.error(
            "", "is one event of a trace; expected a trace with its 'events', or the name of a file of events alone"
        )
    steps = tuple(_steps(record, failed_output, ignored))
    return Trace(record.id(), steps, record.values.get("state"), record.values.get("facts") or {}, _principal(record))


def _steps(record: JsonObject, failed_output: Any, ignored: Mapping[str, bool]) -> Iterator[TraceStep]:
    for index, item in enumerate(record.list_at("events")):
        yield plain_step(item, failed_output, ignored) or checked_step(
            record.item("events", index, item, STEP), failed_output
        )


def _principal(record: JsonObject) -> SessionPrincipal | None:
    try:
        return read_principal(record.values.get("principal"))
    except InputError as error:
        raise record.error("principal", f"is invalid: {error}") from None


def _proposal(record: JsonObject) -> Event:
    return Event(record.tool(), record.values.get("args") or {})


def _call(record: JsonObject, failed_output: Any) -> Event:
    get = record.values.get
    status = status_of(record.values, failed_output)
    return Event(record.tool(), get("args") or {}, get("output"), status, time=record.instant("time"))


# --- lines

MAX_LINE = 64 * 2**20
_CHUNK_LINES = 32
_CHUNK_BYTES = 256 * 2**10
_BLOCK = 2**20
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class InputLine:
    """A line that is not blank.

    Attributes:
        data: its bytes without the line ending; None for a line of more than `limit` bytes, which is discarded.
    """

    number: int
    data: bytes | None
    limit: int = MAX_LINE

    def text(self, path: Path | str) -> str:
        """The decoded line.

        Raises:
            ContentError: the line is too long, or is not UTF-8.
        """
        if self.data is None:
            raise ContentError(f"the line is too long; expected at most {self.limit:,} bytes", path, self.number)
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ContentError(f"byte {error.start} is not UTF-8; expected UTF-8 text", path, self.number) from None


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A position between two lines: the number of lines and bytes before it, and the digest of those bytes."""

    line: int = 0
    read: int = 0
    sha256: str = hashlib.sha256().hexdigest()


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive lines, and the position after them."""

    lines: tuple[InputLine, ...]
    end: FilePosition
    size: int


class LineReader:
    r"""Reads a stream of bytes from its beginning.

    Only "\n" ends a line, as in JSON Lines; a "\r" before it is JSON whitespace. Blank lines are counted and skipped.
    A byte order mark is not part of the first line.
    """

    def __init__(self, stream: BufferedReader, limit: int = MAX_LINE) -> None:
        self._stream = stream
        self._limit = limit
        self._digest = hashlib.sha256()
        self._line = self._read = 0

    @property
    def position(self) -> FilePosition:
        return FilePosition(self._line, self._read, self._digest.hexdigest())

    def skip_to(self, position: FilePosition) -> bool:
        """Skips to a position; false if the bytes before it have changed, or if it is now inside a line."""
        last = b"\n"
        while block := self._stream.read(min(_BLOCK, position.read - self._read)):
            self._advance(block)
            last = block[-1:]
        self._line = position.line
        return self.position == position and (last == b"\n" or not self._stream.peek(1))

    def chunks(self, end: int | None = None) -> Iterator[Chunk]:
        """Yields the rest of the file in chunks.

        Args:
            end: a byte offset at which a chunk must end, because one did in an earlier run.
        """
        while (chunk := self._chunk(end)).size:
            yield chunk

    def _chunk(self, end: int | None) -> Chunk:
        start = self._read
        lines: list[InputLine] = []
        while line := self._next_line():
            if line.data is None or line.data.strip():
                lines.append(line)
            if len(lines) == _CHUNK_LINES or self._read - start >= _CHUNK_BYTES or self._read == end:
                break
        return Chunk(tuple(lines), self.position, self._read - start)

    def _next_line(self) -> InputLine | None:
        data = self._stream.readline(self._limit + 1)
        if not data:
            return None
        whole = len(data) <= self._limit or data.endswith(b"\n")
        text = data.removeprefix(b"" if self._read else _BOM).rstrip(b"\r\n")
        line = InputLine(self._line + 1, text if whole else None, self._limit)
        self._line += 1
        self._advance(data)
        if not whole:
            self._skip_rest()
        return line

    def _skip_rest(self) -> None:
        while block := self._stream.readline(_BLOCK):
            self._advance(block)
            if block.endswith(b"\n"):
                return

    def _advance(self, data: bytes) -> None:
        self._digest.update(data)
        self._read += len(data)


# --- the form of a file

_FIRST_LINES = 10


def form_of(path: Path | str) -> str:
    """Returns the form of a file by its first lines.

    `jsonl` stands for lines with one event each, `log` for an audit log, and the name of a format for the traces of
    another system. It is empty for traces, and for lines that do not tell.

    Raises:
        InputError: the file cannot be read.
    """
    with open_bytes(path) as stream:
        lines = (line for chunk in LineReader(stream).chunks() for line in chunk.lines)
        return next(filter(None, map(_form, itertools.islice(lines, _FIRST_LINES))), "")


def _form(line: InputLine) -> str:
    if (line.data or b"").startswith(b"SQLite format 3"):
        return "log"
    try:
        value = json_values.loads(line.data or b"")
    except (ValueError, RecursionError):
        return ""
    match value[0] if isinstance(value, list) and value else value:
        case {"events": _} | {"proposed": _}:
            return ""
        case {"entry": _, "kind": _}:
            return "log"
        case {"resourceSpans": _} | {"traceId": _, "spanId": _}:
            return "otel"
        case {"object": "trace" | "trace.span"}:
            return "openai-agents"
        case {"run_type": _} | {"runs": [{"run_type": _}, *_]}:
            return "langsmith"
        case {"traceId": _, "type": str()} | {"data": [{"traceId": _, "type": str()}, *_]}:
            return "langfuse"
        case {"trace": _}:
            return "jsonl"
    return ""


@contextlib.contextmanager
def open_bytes(path: Path | str) -> Iterator[BufferedReader]:
    """Opens a file for reading, decompressed (.gz, .bz2, .xz), or standard input for `-`.

    Raises:
        InputError: the file is missing, is a folder, or cannot be read; or it is not compressed as its name says.
    """
    if str(path) == "-":
        if sys.stdin is None:
            raise InputError("standard input is closed; expected JSON Lines")
        yield sys.stdin.buffer  # type: ignore[misc]
        return
    with _open(Path(path)) as file, _decompressed(Path(path), file) as decompressed:
        yield decompressed


@contextlib.contextmanager
def _decompressed(path: Path, file: BufferedReader) -> Iterator[BufferedReader]:
    module = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}.get(path.suffix)
    if path.suffix == ".zst":
        raise InputError(f"{path}: is compressed; expected '--format', or its lines on standard input ('zstdcat')")
    if module is None:
        yield file
        return
    import lzma
    import zlib

    try:
        yield import_module(module).open(file)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of another file
            raise
        raise InputError(f"{path}: cannot be decompressed: {error}; expected the unchanged file") from None


def _open(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{path}: is a folder; expected a file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


# --- calls as people type them

_CALL = re.compile(r"\s*(?P<tool>[^\s()]+)\s*\((?P<rest>.*)", re.DOTALL)
_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
_NAMES = {"true": True, "false": False, "null": None}


def read_call(text: str) -> Event:
    """Reads a call with its output, such as `get_order(id="W1") -> {"status": "delivered"}`.

    Values are those of Python or JSON. A call without output has the output null.

    Raises:
        InputError: the text is not a call.
    """
    match = _CALL.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is not a call; expected TOOL(NAME=VALUE, …), such as refund(amount=90)")
    source, outcome = _parted(f"f({match['rest']}")
    args = _arguments(source, text)
    has_failed = outcome.split(" ")[0] == "failed"
    output = outcome.removeprefix("failed").strip() if has_failed else outcome
    value = _value(_parsed(output, text), text) if output else None
    return Event(match["tool"], args, output=value, status="failed" if has_failed else "ok")


def read_arguments(text: str) -> dict[str, Any]:
    """Reads the arguments of a call, such as `id="W1", amount=90`, in linear time.

    Raises:
        InputError: the text is something else.
    """
    return _arguments(f"f({text})", text)


def _arguments(source: str, text: str) -> dict[str, Any]:
    call = _parsed(source, text)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise InputError(f"{text!r} is not one call; expected NAME=VALUE, such as amount=90")
    if call.args or any(keyword.arg is None for keyword in call.keywords):
        raise InputError(f"{text!r} has an argument without a name; expected NAME=VALUE, such as amount=90")
    return {str(keyword.arg): _value(keyword.value, text) for keyword in call.keywords}


def _parted(text: str) -> tuple[str, str]:
    """The source of a call, and what follows the arrow after it; an arrow in a string is part of it."""
    for end in (match.start() + 1 for match in re.finditer(r"\)\s*(?:->|$)", text)):
        try:
            ast.parse(text[:end], mode="eval")
        except _UNREADABLE:
            continue
        return text[:end], text[end:].strip().removeprefix("->").strip()
    return text, ""


def _parsed(source: str, text: str) -> ast.expr:
    try:
        compile(source, "a call", "eval")  # it finds more errors, and runs nothing
        return ast.parse(source, mode="eval").body
    except _UNREADABLE as error:
        why = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InputError(f"{text!r} cannot be read: {why}; expected TOOL(NAME=VALUE, …) -> OUTPUT") from None


class _Constants(ast.NodeTransformer):
    """Reads the constants of JSON."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_NAMES[node.id]) if node.id in _NAMES else node


def _value(node: ast.expr, text: str) -> Any:
    try:
        return ast.literal_eval(_Constants().visit(node))
    except (*_UNREADABLE, TypeError):
        raise InputError(f"{text!r} has a value that is not a literal; expected one such as 90, 'W1' or [1]") from None
