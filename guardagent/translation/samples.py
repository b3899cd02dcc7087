"""Samples of an agent's calls, from a file of traces or of cases: what its tools get and return, and what is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent._support.files import parse_json
from guardagent.batch.records import Case, LineReader, Trace, open_bytes, read_case, read_trace
from guardagent.errors import ContentError
from guardagent.translation.samples_pieces.concealment import conceal
from guardagent.translation.samples_pieces.failures import FailedOutput, FailureCounts
from guardagent.translation.samples_pieces.shapes import Shape, ShapePath, parsed
from guardagent.types import Event, thaw

_EXAMPLES = 3
_LONGEST_CALL = 200  # characters of arguments or an output


@dataclass(frozen=True, slots=True)
class CallSample:
    """A call, shortened. `output` is None if none is recorded; `failed` if that is unknown."""

    args: str
    output: str | None
    failed: bool | None


@dataclass(frozen=True, slots=True)
class ToolSamples:
    """The calls of one tool. `calls` is their number, `arguments` and `outputs` their shapes."""

    tool: str
    calls: int
    examples: tuple[CallSample, ...]
    arguments: tuple[ShapePath, ...]
    outputs: tuple[ShapePath, ...]
    failures: tuple[FailedOutput, ...]


@dataclass(frozen=True, slots=True)
class TraceSamples:
    """The samples of a file. No value in them looks like a secret."""

    tools: tuple[ToolSamples, ...]
    state: tuple[ShapePath, ...]
    facts: tuple[ShapePath, ...]


def read_samples(path: Path | str) -> TraceSamples:
    """Reads a JSON Lines file of traces or cases, as `audit` and `check` do.

    Raises:
        InputError: the file cannot be read, or a line is neither a trace nor a case; with its place.
    """
    collector = _Collector()
    for record in read_records(path):
        collector.add(record)
    if not collector.records:
        raise ContentError("is empty; expected traces or cases, one JSON object per line", path)
    return collector.samples()


def read_records(path: Path | str, failed_output: Any = None) -> Iterator[Case | Trace]:
    """Yields the traces and cases of a JSON Lines file; arguments and errors as for `read_case`."""
    with open_bytes(path) as stream:
        for chunk in LineReader(stream).chunks():
            for line in chunk.lines:
                yield _record(line.text(path), path, line.number, failed_output)


def _record(text: str, path: Path | str, line: int, failed_output: Any) -> Case | Trace:
    value = parse_json(text, path, line)
    keys = value.keys() if isinstance(value, dict) else ()
    if "proposed" in keys:
        return read_case(text, path, line, failed_output)
    if "events" in keys:
        return read_trace(text, path, line, failed_output)
    found = f"an object with {', '.join(map(repr, keys)) or 'no keys':.200}" if keys else "no object with keys"
    raise ContentError(f"{found}; expected a trace with 'events', or a case with 'proposed'", path, line)


class _Collector:
    def __init__(self) -> None:
        self.records = 0
        self._tools: dict[str, _Calls] = {}
        self._state, self._facts = Shape(), Shape()

    def add(self, record: Case | Trace) -> None:
        self.records += 1
        for event in _events(record):
            if event.tool:
                self._tools.setdefault(event.tool, _Calls()).add(event)
        for shape, values in ((self._state, _states(record)), (self._facts, _facts(record))):
            for one in values:
                shape.add(conceal(thaw(one)))

    def samples(self) -> TraceSamples:
        tools = tuple(calls.samples(name) for name, calls in sorted(self._tools.items()))
        return TraceSamples(tools, _fields(self._state), _fields(self._facts))


def _fields(shape: Shape) -> tuple[ShapePath, ...]:
    return tuple(shape.paths())[1:]


def _events(record: Case | Trace) -> Iterator[Event]:
    if isinstance(record, Case):
        yield from record.history
        yield record.proposed
    else:
        yield from (step.event for step in record.steps)


def _states(record: Case | Trace) -> Iterable[Mapping[str, Any]]:
    steps = record.steps if isinstance(record, Trace) else ()
    return [one for one in (record.state, *(step.state for step in steps)) if one]


def _facts(record: Case | Trace) -> Iterable[Mapping[str, Any]]:
    steps = record.steps if isinstance(record, Trace) else ()
    return [one for one in (record.facts, *(step.facts for step in steps)) if one]


class _Calls:
    """Collects the calls of one tool."""

    def __init__(self) -> None:
        self._count = 0
        self._examples: dict[tuple[str, ...], CallSample] = {}
        self._arguments, self._outputs, self._failures = Shape(), Shape(), FailureCounts()

    def add(self, event: Event) -> None:
        self._count += 1
        args, output = conceal(thaw(event.args)), conceal(parsed(thaw(event.output)))
        self._arguments.add(args)
        if output is not None:
            self._outputs.add(output)
            self._failures.add(output, event.status)
        kind = (type(output).__name__, *sorted(args))  # examples differ in form
        if len(self._examples) < _EXAMPLES and (kind not in self._examples or self._examples[kind].output is None):
            failed = {"ok": False, "failed": True}.get(event.status or "")
            self._examples[kind] = CallSample(_short(args), None if output is None else _short(output), failed)

    def samples(self, tool: str) -> ToolSamples:
        return ToolSamples(
            tool,
            self._count,
            tuple(self._examples.values()),
            _fields(self._arguments),
            tuple(self._outputs.paths()),
            self._failures.outputs(),
        )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_CALL else f"{text[: _LONGEST_CALL - 2]} …"
