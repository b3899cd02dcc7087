"""An agent as recorded calls show it: samples of calls, shapes of values, failures; and the facts of its host.

The samples come from a file of traces or of cases. They are shown to a model and to reviewers, within a limit of
characters, so values that look like secrets are hidden. A shape has the paths in a value with their types, and the
values of those that have few. The beginnings of outputs that look like failures are candidates for `failed_output`. The
facts that the host gives to a session are described in another file.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, get_args

from guardagent._support.files import parse_json, parse_yaml, read_text
from guardagent._support.json_values import loads, record_of
from guardagent.batch.records import Case, LineReader, Trace, open_bytes, read_case, read_trace
from guardagent.errors import ContentError, UnknownNameError
from guardagent.models.redaction import scrub
from guardagent.packs.secrets.functions import assignments, card_numbers, disorder
from guardagent.types import Event, thaw

# --- secrets

HIDDEN = "[secret]"
_DEEPEST_VALUE = 30
_NAME = re.compile(
    r"passw|pwd|secret|token|api_?key|private_?key|credential|\bauth(?:orization)?\b|\bcvv|\bssn\b|\bpin\b",
    re.IGNORECASE,
)
_KNOWN = re.compile(
    r"\b(?:sk|pk|rk)[-_][\w-]{16,}|\bgh[pousr]_\w{20,}|\bxox[abprs]-[\w-]{10,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[\w-]{30,}|\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END|$)"
    r"|\bBearer\s+[\w.~+/-]{12,}=*"
)
_WORD = re.compile(r"[A-Za-z0-9+/_=-]{24,}")
_DISORDER = 4.0  # bits for each character: names and dates have less


def conceal(value: Any, depth: int = 0) -> Any:
    """Returns a JSON value with a mark in place of secrets: by the name of a field, or by their form."""
    if depth > _DEEPEST_VALUE:
        return HIDDEN
    if isinstance(value, str):
        return conceal_text(value)
    if isinstance(value, Mapping):
        return {
            conceal_text(str(key)): HIDDEN if _NAME.search(str(key)) and _is_value(part) else conceal(part, depth + 1)
            for key, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [conceal(part, depth + 1) for part in value]
    return value


@lru_cache(maxsize=20_000)  # traces repeat their strings
def conceal_text(text: str) -> str:
    """Returns a string with a mark in place of secrets."""
    text = _KNOWN.sub(HIDDEN, scrub(text))
    for candidate in [*(assignment["value"] for assignment in assignments(text)), *_WORD.findall(text)]:
        if _is_random(candidate):
            text = text.replace(candidate, HIDDEN)
    return re.sub(r"\d[\d -]{11,}\d", lambda match: HIDDEN if card_numbers(match[0]) else match[0], text)


def _is_value(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""


def _is_random(text: str) -> bool:
    has_both = re.search(r"\d", text) and re.search(r"[A-Za-z]", text)
    return len(text) >= 16 and bool(has_both) and disorder(text) >= _DISORDER


# --- failures

_OPENING = re.compile(
    r"\W*(?:error|errno|fail|exception|traceback|cannot|could not|can't|unable|invalid|unknown|not found|no such|"
    r"denied|unauthori|forbidden|time(?:d )?\s?out|refused|rejected|bad request|[45]\d\d\b|\w+(?:error|exception)\b)",
    re.IGNORECASE,
)
_FIELDS = ("error", "errors", "isError", "exception")
_LONGEST_BEGINNING = 40


@dataclass(slots=True)
class FailedOutput:
    """A beginning of outputs that look like failures.

    Attributes:
        prefix: the beginning, up to its first colon or for some words.
        count: how many outputs begin so.
        others: how many calls with such an output the traces record as not failed.
    """

    prefix: str
    count: int = 0
    others: int = 0


def _failure_text(output: Any, status: str | None) -> str | None:
    """The text of an output that looks like a failure, or of a failed call; None for any other."""
    if isinstance(output, Mapping) and (name := next((name for name in _FIELDS if output.get(name)), None)):
        return f'{{"{name}": {output[name]}'
    looks_failed = status == "failed" or (isinstance(output, str) and _OPENING.match(output))
    return (str(output) or None) if looks_failed else None


def _prefix(text: str) -> str:
    head, colon, _ = text[:_LONGEST_BEGINNING].partition(":")
    return head + colon if colon else " ".join(re.sub(r"\d+", "#", text[:_LONGEST_BEGINNING]).split()[:3])


# --- shapes

_MOST_KEYS = 60  # of a mapping that is kept; further ones count as '*'
_FEWEST_KEYS = 4  # of a mapping whose keys are words
_MOST_VALUES = 8
_LONGEST_VALUE = 40
_DEEPEST_SHAPE = 8
_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
    list: "list",
    dict: "object",
}


@dataclass(frozen=True, slots=True)
class ShapePath:
    """A place in values, such as `flights[].price` or `users.*.name`.

    Attributes:
        types: the types there, the most frequent first.
        values: all values there, if they are few and come back; else empty.
        description: what a schema says of it.
    """

    path: str
    types: tuple[str, ...]
    values: tuple[Any, ...] = ()
    description: str = ""


@dataclass(slots=True)
class Shape:
    """Collects values of one place."""

    types: Counter[str] = field(default_factory=Counter)
    values: Counter[Any] = field(default_factory=Counter)
    keys: dict[str, Shape] = field(default_factory=dict)
    items: Shape | None = None

    def add(self, value: Any, depth: int = 0) -> None:
        """Adds a value; its strings are without secrets."""
        self.types[_TYPES.get(type(value), type(value).__name__)] += 1
        if isinstance(value, str | int) and not isinstance(value, bool):
            self._add_value(value)
        if depth >= _DEEPEST_SHAPE:
            return
        if isinstance(value, Mapping):
            for key, part in value.items():
                place = key if key in self.keys or len(self.keys) < _MOST_KEYS else "*"
                self.keys.setdefault(place, Shape()).add(part, depth + 1)
        elif isinstance(value, list | tuple):
            self.items = self.items or Shape()
            for part in value:
                self.items.add(part, depth + 1)

    def paths(self, place: str = "") -> Iterator[ShapePath]:
        """Yields the place itself and those within, an object before its fields."""
        if self.types:
            yield ShapePath(place or "(whole)", tuple(name for name, _ in self.types.most_common()), self._few_values())
        for key, shape in self._fields().items():
            yield from shape.paths(f"{place}.{key}" if place else key)
        if self.items is not None:
            yield from self.items.paths(f"{place}[]")

    def _add_value(self, value: str | int, times: int = 1) -> None:
        is_counted = value in self.values or (len(self.values) <= _MOST_VALUES and len(str(value)) <= _LONGEST_VALUE)
        self.values[value if is_counted else "\0"] += times  # the latter: there are others

    def _few_values(self) -> tuple[Any, ...]:
        """The values of strings that come back, as those of a status do and those of an id do not."""
        strings = all(isinstance(value, str) and value != "\0" for value in self.values)
        few = 0 < len(self.values) <= _MOST_VALUES and sum(self.values.values()) >= 2 * len(self.values) + 1
        return tuple(sorted(self.values)) if strings and few else ()

    def _fields(self) -> Mapping[str, Shape]:
        """The fields of an object; those of a mapping whose keys are data are merged into '*'."""
        if not self._keys_are_data():
            return self.keys
        merged = Shape()
        for shape in self.keys.values():
            merged.merge(shape)
        return {"*": merged}

    def _keys_are_data(self) -> bool:
        if "*" in self.keys or len(self.keys) >= _MOST_KEYS:
            return True
        ids = sum(bool(re.search(r"\d{2}|\W", key)) for key in self.keys)
        return ids * 2 > len(self.keys) or self._keys_are_alike()

    def _keys_are_alike(self) -> bool:
        """Whether the fields are objects of one kind, and few values have each: fields of a record come back."""
        objects = [shape for shape in self.keys.values() if set(shape.types) == {"object"} and shape.keys]
        kinds = Counter(frozenset(item.keys) for item in objects)
        count = len(self.keys)
        alike = sum(kinds.values()) == count >= _FEWEST_KEYS and max(kinds.values()) * 2 > count
        return alike and all(sum(shape.types.values()) * 2 < self.types["object"] for shape in self.keys.values())

    def merge(self, other: Shape) -> None:
        """Adds the values of another place."""
        self.types += other.types
        for value, times in other.values.items():
            self._add_value(value, times)
        for key, shape in other.keys.items():
            self.keys.setdefault(key, Shape()).merge(shape)
        if other.items is not None:
            self.items = self.items or Shape()
            self.items.merge(other.items)


def parsed(output: Any) -> Any:
    """Returns a string that is a JSON object or list as its value, and anything else as it is."""
    if isinstance(output, str) and output.lstrip()[:1] in ("{", "["):
        try:
            return loads(output)
        except ValueError:
            return output
    return output


# --- samples

_EXAMPLES = 3
_LONGEST_CALL = 200  # characters of arguments or an output


@dataclass(frozen=True, slots=True)
class CallSample:
    """A call, shortened. `output` is None if none is recorded; `failed` if that is unknown."""

    args: str
    output: str | None
    failed: bool | None


class ToolSamples:
    """The calls of one tool. `calls` is their number, `arguments` and `outputs` their shapes."""

    def __init__(self, tool: str) -> None:
        self.tool, self.calls = tool, 0
        self.examples: dict[tuple[str, ...], CallSample] = {}
        self._arguments, self._outputs = Shape(), Shape()
        self._failures: dict[str, FailedOutput] = {}

    @cached_property
    def arguments(self) -> tuple[ShapePath, ...]:
        return _fields(self._arguments)

    @cached_property
    def outputs(self) -> tuple[ShapePath, ...]:
        return tuple(self._outputs.paths())

    @property
    def failures(self) -> Sequence[FailedOutput]:
        """The beginnings of failures, the most frequent first."""
        return sorted(self._failures.values(), key=lambda failure: failure.count, reverse=True)

    def add(self, event: Event) -> None:
        """Adds a call."""
        self.calls += 1
        args, output = conceal(thaw(event.args)), conceal(parsed(thaw(event.output)))
        self._arguments.add(args)
        if output is not None:
            self._outputs.add(output)
            if text := _failure_text(output, event.status):
                failure = self._failures.setdefault(_prefix(text), FailedOutput(_prefix(text)))
                failure.count += 1
                failure.others += event.status == "ok"
        kind = (type(output).__name__, *sorted(args))  # examples differ in form
        if len(self.examples) < _EXAMPLES and (kind not in self.examples or self.examples[kind].output is None):
            failed = {"ok": False, "failed": True}.get(event.status or "")
            self.examples[kind] = CallSample(short(args), None if output is None else short(output), failed)


class TraceSamples:
    """The samples of a file. No value in them looks like a secret."""

    def __init__(self, records: Iterable[Case | Trace]) -> None:
        tools: dict[str, ToolSamples] = {}
        shapes = {"state": Shape(), "facts": Shape()}
        for record in records:
            for event in _events(record):
                if event.tool:
                    tools.setdefault(event.tool, ToolSamples(event.tool)).add(event)
            for name, shape in shapes.items():
                for step in (record, *(record.steps if isinstance(record, Trace) else ())):
                    if values := getattr(step, name):
                        shape.add(conceal(thaw(values)))
        self.tools = [tool for _, tool in sorted(tools.items())]
        self.state, self.facts = map(_fields, shapes.values())
        self.messages: tuple[ShapePath, ...] = ()

    def add_host(self, host: Mapping[str, tuple[ShapePath, ...]]) -> None:
        """Adds what a host describes of itself, as `read_host` returns it."""
        for name, paths in host.items():
            known = getattr(self, name)
            places = {path.path for path in known}
            setattr(self, name, (*known, *(path for path in paths if path.path not in places)))


def read_samples(path: Path | str) -> TraceSamples:
    """Reads a JSON Lines file of traces or cases, as `audit` and `check` do.

    Raises:
        InputError: the file cannot be read, or a line is neither a trace nor a case; with its place.
    """
    records = read_records(path)
    first = next(records, None)
    if first is None:
        raise ContentError("is empty; expected traces or cases, one JSON object per line", path)
    return TraceSamples(chain([first], records))


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
    shape = f"an object with {', '.join(map(repr, keys)) or 'no keys':.200}" if keys else "no object with keys"
    raise ContentError(f"{shape}; expected a trace with 'events', or a case with 'proposed'", path, line)


def _fields(shape: Shape) -> tuple[ShapePath, ...]:
    return tuple(shape.paths())[1:]


def _events(record: Case | Trace) -> Iterator[Event]:
    if isinstance(record, Case):
        yield from record.history
        yield record.proposed
    else:
        yield from (step.event for step in record.steps)


def short(value: Any, most: int = _LONGEST_CALL) -> str:
    """Returns a value as JSON of at most so many characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= most else f"{text[: most - 2]} …"


# --- the host

HOST = ("state", "facts", "messages")
_SCHEMA_TYPES = {"array": "list"}


def read_host(path: Path | str) -> dict[str, tuple[ShapePath, ...]]:
    """Reads a YAML or JSON file with the state, the facts and the messages of a host, each as a JSON schema or samples.

    A schema has `$schema`, or the `type` 'object' or 'array'. Any other value is a sample, and a list has several.

    Raises:
        InputError: the file cannot be read, or has another form.
    """
    value = _content(path)
    if not isinstance(value, Mapping) or not value:
        raise ContentError(f"is a {type(value).__name__}; expected an object with {', '.join(map(repr, HOST))}", path)
    for name, part in value.items():
        if name not in HOST:
            raise UnknownNameError("key", str(name), HOST, str(path))
        if not isinstance(part, Mapping | list) or not part:
            raise ContentError(f"{name!r} is empty or a {type(part).__name__}; expected a schema or samples", path)
    return {name: tuple(_host_paths(part)) for name, part in value.items()}


def _host_paths(part: Mapping[str, Any] | list[Any]) -> Iterator[ShapePath]:
    if isinstance(part, Mapping) and ("$schema" in part or part.get("type") in ("object", "array")):
        yield from _schema_paths(part, "")
        return
    shape = Shape()
    for sample in part if isinstance(part, list) else [part]:
        shape.add(conceal(sample))
    yield from (path for path in shape.paths() if path.path != "(whole)" or path.types != ("object",))


def _schema_paths(schema: Any, place: str, depth: int = 0) -> Iterator[ShapePath]:
    if not isinstance(schema, Mapping) or depth > _DEEPEST_SHAPE:
        return
    kinds, enum, properties = (schema.get(key) for key in ("type", "enum", "properties"))
    properties = properties if isinstance(properties, Mapping) else {}
    names = [kind for kind in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(kind, str)]
    types = tuple(_SCHEMA_TYPES.get(name, name) for name in names or ["object" if properties else "string"])
    if place:
        about = schema.get("description")
        described = " ".join(about.split()) if isinstance(about, str) else ""
        yield ShapePath(place, types, tuple(conceal(enum)) if isinstance(enum, list) else (), described)
    for name, part in properties.items():
        yield from _schema_paths(part, f"{place}.{name}" if place else str(name), depth + 1)
    yield from _schema_paths(schema.get("additionalProperties"), f"{place}.*" if place else "*", depth + 1)
    yield from _schema_paths(schema.get("items"), f"{place}[]", depth + 1)


def facts_of_host(host: Mapping[str, tuple[ShapePath, ...]]) -> tuple[FactDescription, ...]:
    """Returns the facts that a host describes, with their types."""
    paths = [path for path in host.get("facts", ()) if not re.search(r"[.*\[(]", path.path)]
    return tuple(
        FactDescription(path.path, path.description, path.types[0] if path.types[0] in TYPES else "") for path in paths
    )


# --- facts

FactType = Literal["", "string", "number", "integer", "boolean", "list", "object", "date", "datetime"]
TYPES = get_args(FactType)


@dataclass(frozen=True, slots=True)
class _FactEntry:
    description: str = ""
    type: FactType = ""


@dataclass(frozen=True, slots=True)
class FactDescription:
    """A fact. `type` is one of `TYPES`; empty if it is unknown."""

    name: str
    description: str = ""
    type: str = ""


def read_fact_descriptions(path: Path | str) -> tuple[FactDescription, ...]:
    """Reads a YAML or JSON file: name -> description, or name -> {description, type}.

    Raises:
        InputError: the file cannot be read, or has another form.
    """
    value = _content(path)
    if not isinstance(value, Mapping) or not value:
        raise ContentError(f"is a {type(value).__name__}; expected names of facts with their descriptions", path)
    return tuple(_fact(name, description, path) for name, description in value.items())


def _content(path: Path | str) -> Any:
    return (parse_json if str(path).endswith(".json") else parse_yaml)(read_text(path), path)


def _fact(name: Any, value: Any, path: Path | str) -> FactDescription:
    if not isinstance(name, str) or not name.strip():
        raise ContentError(f"the name of a fact is {name!r}; expected a string", path)
    try:
        entry = _FactEntry(value or "") if isinstance(value, str | None) else record_of(_FactEntry, value, repr(name))
    except ValueError as error:
        raise ContentError(str(error), path) from None
    return FactDescription(name, entry.description, entry.type)


# --- samples as text


def render(samples: TraceSamples, limit: int = 20_000) -> str:
    """Returns samples as text of at most `limit` characters.

    All parts are shortened alike: each gets the same number of characters, and those that others do not need.
    """
    parts = ["\n".join(_tool_lines(tool)) for tool in samples.tools]
    parts += ["\n".join(_shape_lines(name, getattr(samples, name))) for name in HOST]
    left, texts = limit, {}
    for waiting, (index, part) in enumerate(sorted(enumerate(parts), key=lambda part: len(part[1]))):
        share = left // (len(parts) - waiting) - 1
        texts[index] = _cut(part, max(0, share))
        left -= len(texts[index]) + 1
    return "\n".join(texts[index] for index in range(len(parts)))[:limit]


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return text[: max(0, limit - 2)].rpartition("\n")[0] + "\n…" if limit > 2 else ""


def _tool_lines(samples: ToolSamples) -> Iterator[str]:
    yield f"tool {samples.tool}: {samples.calls} calls"
    for example in samples.examples.values():
        status = {None: "", True: " (failed)", False: ""}[example.failed]
        yield f"  {example.args} -> {'no output' if example.output is None else example.output}{status}"
    for failure in samples.failures:
        yield f"  failure {failure.prefix!r}: {failure.count}, {failure.others} of them recorded as not failed"
    yield from _shape_lines("  arguments", samples.arguments)
    yield from _shape_lines("  output", samples.outputs)


def _shape_lines(name: str, paths: tuple[ShapePath, ...]) -> Iterator[str]:
    for path in paths:
        values = f" in {json.dumps(path.values, ensure_ascii=False)}" if path.values else ""
        about = f" ({path.description})" if path.description else ""
        yield f"{name} {path.path}: {' or '.join(path.types)}{values}{about}"
