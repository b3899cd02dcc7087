"""Labelled examples: runs of the target agent, each with the label that the guard should return.

After the target of a compilation and its examples come the named values in a text, which are lines such as
`Identity: nursing` and JSON objects, and the facts that a host may provide, with the text fields of the same meaning.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent._support import syntax
from guardagent._support.execution import deny_on_crash
from guardagent._support.files import read_json_lines
from guardagent.errors import ContentError, InputError, name_hint
from guardagent.programs.compile.request import Clause, clauses_of
from guardagent.programs.program import required_check
from guardagent.programs.program_file import digest_of, whole_specification
from guardagent.types import Check, Context, Event, thaw

if TYPE_CHECKING:
    from guardagent.programs.program import RequiredCheck
    from guardagent.sandbox.toolbox import Toolbox


@dataclass(frozen=True)
class CompileTarget:
    """One guard request, its specification and its toolbox.

    Attributes:
        required: the checks that the specification's front matter requires.
        data: the values that these checks use.
        name: the name of the known agent; empty for a request from files.
    """

    request: str
    specification: str
    toolbox: Toolbox
    required: Sequence[RequiredCheck] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""

    @property
    def whole_specification(self) -> str:
        return whole_specification(self.specification, [check.text for check in self.required], self.data)

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """The sentences of the request, numbered."""
        return clauses_of(self.request)

    @cached_property
    def required_checks(self) -> tuple[Check, ...]:
        """The required checks, which the host runs itself beside the program."""
        return tuple(
            deny_on_crash(required_check(requirement, self.toolbox, self.data)) for requirement in self.required
        )


RUN_TEXTS = ("agent_input", "agent_output")
FACTS = "facts"

_KEYS = ("id", "agent_input", "agent_output", "label")


@dataclass(frozen=True, slots=True)
class Example:
    """One run with its label: 1 if the guard should deny it, else 0.

    Attributes:
        facts: the host's facts for this run.
        clauses: the numbers of the request's sentences that the run violates, if annotated.
        details: the details that the program must return, if annotated; it may return more.
    """

    id: str
    agent_input: str
    agent_output: str
    label: int
    facts: Mapping[str, Any] = field(default_factory=dict)
    clauses: tuple[int, ...] = ()
    details: Mapping[str, Any] | None = None

    @property
    def run(self) -> str:
        """The run without its annotations, as a string for comparison."""
        return json.dumps([self.agent_input, self.agent_output, thaw(self.facts)], sort_keys=True, default=str)

    def with_text(self, origin: str, text: str, label: int | None = None) -> Example:
        """Returns the example with another input or output, and optionally another label."""
        label = self.label if label is None else label
        if origin == "agent_input":
            return replace(self, agent_input=text, label=label)
        return replace(self, agent_output=text, label=label)

    def locations(self) -> Iterator[tuple[str, ValueLocation]]:
        """Yields (origin, location) of the named values in both texts."""
        for origin in RUN_TEXTS:
            yield from ((origin, location) for location in value_locations(getattr(self, origin)))

    def with_other_values(self, values: Callable[[str, str, Any], Iterable[Any]]) -> Iterator[tuple[Example, str]]:
        """Yields (run, note) for each other value of a field of the input or of a fact.

        Args:
            values: returns the other values for an origin, a name and a value.
        """
        for line in fields_of(self.agent_input):
            for value in values("agent_input", line.name, line.value):
                text = with_value(self.agent_input, line, str(value))
                yield replace(self, agent_input=text), f"{line.name}: {value} instead of {line.value}"
        for name, fact in self.facts.items():
            for value in values(FACTS, name, fact) if isinstance(fact, str | int | float) else ():
                yield replace(self, facts={**self.facts, name: value}), f"fact {name}: {value} instead of {fact}"

    @property
    def inputs(self) -> dict[str, Any]:
        """The run as the inputs of a program."""
        return {
            "agent_input": self.agent_input,
            "agent_output": self.agent_output,
            "facts": thaw(self.context.facts),
        }

    @property
    def event(self) -> Event:
        return Event("agent_run", args={"input": self.agent_input}, output=self.agent_output)

    @property
    def context(self) -> Context:
        return Context(facts=self.facts)


def read_examples(source: Path | str | Iterable[Example | Mapping[str, Any]]) -> list[Example]:
    """Reads the examples of a JSON Lines file, or of records of the same shape. Ignores unknown keys.

    Raises:
        ContentError: a record is invalid, an id appears twice, or the same run has both labels; with the location.
        InputError: one of the labels has no example, so that a constant program would pass.
    """
    if isinstance(source, Path | str):
        name = "standard input" if str(source) == "-" else str(source)
        examples = [read_example(record, name, line) for line, record in read_json_lines(source)]
    else:
        name = "examples"
        examples = [
            record if isinstance(record, Example) else read_example(record, name, number)
            for number, record in enumerate(source, start=1)
        ]
    _refuse_unusable(examples, name)
    return examples


def digest_of_examples(examples: Sequence[Example]) -> str:
    """Returns the digest of the examples, independent of the order and layout of the file."""
    rows = []
    for e in examples:
        annotations = [*([e.clauses] if e.clauses else []), *([] if e.details is None else [thaw(e.details)])]
        values = [e.id, e.agent_input, e.agent_output, e.label, thaw(e.facts), *annotations]
        rows.append(json.dumps(values, sort_keys=True, default=str))
    return digest_of("\n".join(sorted(rows)))


def read_example(record: Mapping[str, Any], path: str, line: int) -> Example:
    """Converts one record.

    Raises:
        ContentError: the record is invalid; with its location and the expected value.
    """
    if not isinstance(record, Mapping):
        raise ContentError(
            f"is a {type(record).__name__}; expected an object with {', '.join(map(repr, _KEYS))}", path, line
        )
    for key in _KEYS:
        if key not in record:
            raise ContentError(f"key {key!r} is missing{name_hint(key, map(str, record))}", path, line)
    for key in ("agent_input", "agent_output"):
        if not isinstance(record[key], str) or not record[key].strip():
            raise ContentError(f"key {key!r} is empty or not a string; expected a non-empty string", path, line)
    label, name, facts = record["label"], record["id"], record.get("facts") or {}
    if type(label) is not int or label not in (0, 1):
        raise ContentError(f"key 'label' is {label!r}; expected the number 0 or 1", path, line)
    if not isinstance(name, str | int) or isinstance(name, bool) or not str(name).strip():
        raise ContentError(f"key 'id' is {name!r}; expected a non-empty string", path, line)
    if not isinstance(facts, Mapping):
        raise ContentError("key 'facts' is not an object; expected an object with the host's facts", path, line)
    clauses, details = _clauses(record, label, path, line), _details(record, path, line)
    return Example(str(name), record["agent_input"], record["agent_output"], label, dict(facts), clauses, details)


def _clauses(record: Mapping[str, Any], label: int, path: str, line: int) -> tuple[int, ...]:
    clauses = record.get("clauses") or []
    if not isinstance(clauses, list) or not all(type(clause) is int for clause in clauses) or (clauses and label == 0):
        raise ContentError(
            f"key 'clauses' is {clauses!r}; expected the numbers of the sentences that a run with label 1 violates",
            path,
            line,
        )
    return tuple(clauses)


def _details(record: Mapping[str, Any], path: str, line: int) -> Mapping[str, Any] | None:
    details = record.get("details")
    if details is None or isinstance(details, Mapping):
        return details
    raise ContentError("key 'details' is not an object; expected the details that the program must return", path, line)


def _refuse_unusable(examples: Sequence[Example], name: str) -> None:
    twice = [name for name, count in Counter(example.id for example in examples).items() if count > 1]
    if twice:
        raise ContentError(f"id {twice[0]!r} appears twice; expected each id once", name)
    seen: dict[str, Example] = {}
    for example in examples:
        other = seen.setdefault(example.run, example)
        if other.label != example.label:
            raise ContentError(
                f"{other.id!r} and {example.id!r} are the same run with different labels; expected one label", name
            )
    missing = {0, 1} - {example.label for example in examples}
    if missing:
        raise InputError(
            f"{name}: no example has label {min(missing)}; expected at least one run that is allowed (0) and one that "
            "is denied (1), otherwise a program with a constant answer would pass"
        )


# --- named values

_FIELD = re.compile(r"^([ \t]*)([A-Za-z][\w-]*(?: [\w-]+){0,3})[ \t]*:[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_MOST_OBJECTS = 200  # per text
_DEEPEST = 50  # keys on the path to a value


@dataclass(frozen=True, slots=True)
class TextField:
    """One line with a name and a value. `start` and `end` delimit the value in the text."""

    name: str
    value: str
    indent: str
    start: int
    end: int

    def line(self, value: str | None = None) -> str:
        return f"{self.indent}{self.name}: {self.value if value is None else value}"


def fields_of(text: str) -> list[TextField]:
    """Returns the fields of a text, in order."""
    return [
        TextField(match[2], match[3], match[1], match.start(3), match.end(3))
        for match in _FIELD.finditer(text)
        if not match[3].startswith("//")  # a URL
    ]


def with_value(text: str, field: TextField, value: str) -> str:
    return text[: field.start] + value + text[field.end :]


def append_text(text: str, more: str) -> str:
    """Appends to a text; in a JSON object, which must stay valid, to its longest value."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return f"{text}\n{more}"
    longest = max(_texts(value), key=len, default="")
    changed = _replaced(value, longest, f"{longest} {more}") if longest else {**value, "note": more}
    return json.dumps(changed, ensure_ascii=False)


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    return new if value == old and isinstance(value, str) else value


def free_text(text: str) -> TextField | None:
    """Returns the longest field, which most likely holds the user's free text."""
    return max(fields_of(text), key=lambda field: len(field.value), default=None)


@dataclass(frozen=True, slots=True)
class ValueLocation:
    """The location of a scalar value: a line, or an entry of a JSON object.

    Attributes:
        name: the name on the line; in an object the path of keys, joined by dots.
        value: the value; for a line a string.
        start, end: the span of the line's value, or of the whole object.
        nth: the number of earlier locations with this name.
        path: the keys that lead to the value; empty for a line.
        record: the whole object; None for a line.
    """

    name: str
    value: Any
    start: int
    end: int
    nth: int = 0
    path: tuple[Any, ...] = ()
    record: Any = None

    def put(self, text: str, value: Any) -> str:
        """Returns the text with another value at this location."""
        if not self.path:
            return text[: self.start] + str(value) + text[self.end :]
        record, last = self._copied()
        last[self.path[-1]] = value
        return replaced_object(text, self.start, self.end, record)

    def drop(self, text: str) -> str:
        """Returns the text without this line or key."""
        if not self.path:
            start, end = text.rfind("\n", 0, self.start) + 1, text.find("\n", self.end)
            return (text[:start] + (text[end + 1 :] if end >= 0 else "")).rstrip("\n")
        record, last = self._copied()
        del last[self.path[-1]]
        return replaced_object(text, self.start, self.end, record)

    def _copied(self) -> tuple[Any, Any]:
        """Returns a copy of the object, and the container of the value in it."""
        record = last = copy.deepcopy(self.record)
        for key in self.path[:-1]:
            last = last[key]
        return record, last


def value_locations(text: str) -> list[ValueLocation]:
    """Returns the scalar values of a text, in order."""
    objects = list(objects_in(text))
    value_locations = [
        ValueLocation(field.name, field.value, field.start, field.end)
        for field in fields_of(text)
        if not any(start < field.end and field.start < end for start, end, _ in objects)
    ]
    for start, end, record in objects:
        value_locations += [
            ValueLocation(".".join(map(str, path)), value, start, end, 0, path, record)
            for path, value in _plain(record, ())
        ]
    seen = Counter[str]()
    numbered = []
    for location in sorted(value_locations, key=lambda place: place.start):
        numbered.append(dataclasses.replace(location, nth=seen[location.name]))
        seen[location.name] += 1
    return numbered


def objects_in(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yields (start, end, value) of the JSON objects in a text, except deeply nested ones."""
    decoder, at = json.JSONDecoder(), text.find("{")
    for _ in range(_MOST_OBJECTS):
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            if _is_shallow(value, _DEEPEST):
                yield at, end, value
        at = text.find("{", end)


def replaced_object(text: str, start: int, end: int, value: Any) -> str:
    """Returns the text with another JSON object in a span, indented if the old one was."""
    indent = 2 if "\n" in text[start:end] else None
    return text[:start] + json.dumps(value, ensure_ascii=False, indent=indent) + text[end:]


def _is_shallow(value: Any, left: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left > 0 and all(_is_shallow(item, left - 1) for item in items)


def _plain(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yields (path, value) of the scalar values in an object."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _plain(item, (*path, key))
    elif value is not None and path:
        yield path, value


# --- facts

_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_READ = re.compile(r"""\bfacts(?:\.get\(\s*|\[\s*)(["'])(\w+)\1""")


def named_facts(target: CompileTarget, examples: Sequence[Example], sources: Iterable[str]) -> set[str]:
    """Returns the names of the facts in examples, in the specification, and in the code of programs."""
    names = {name for example in examples for name in example.facts}
    names |= {match[2] for check in target.required for match in _READ.finditer(check.text)}
    names |= {name for source in sources for name in _fact_names(source)}
    documented = " ".join(part for part in _SENTENCE.split(target.specification) if re.search(r"\bfacts?\b", part))
    fields = {location.name for example in examples for _, location in example.locations()}
    return names | {name for name in map(_snake, fields) if re.search(rf"\b{re.escape(name)}\b", documented)}


def linked_facts(names: Iterable[str], examples: Sequence[Example]) -> Mapping[str, tuple[str, str]]:
    """Returns fact -> (origin, name) of the field with the same name, else with the same value in all examples."""
    fields = dict.fromkeys((origin, location.name) for example in examples for origin, location in example.locations())
    linked_facts = {}
    for name in sorted(names):
        same = [field for field in fields if _snake(field[1]) == _snake(name)] or _fields_of_same_value(
            name, fields, examples
        )
        if same:
            linked_facts[name] = same[0]
    return linked_facts


def fact_value(text: Any) -> Any:
    """Converts a string from a text to the type that a host would use: a number, a boolean, else the string."""
    if not isinstance(text, str):
        return text
    truths = {"true": True, "yes": True, "false": False, "no": False}
    if text.strip().lower() in truths:
        return truths[text.strip().lower()]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else text


def _fields_of_same_value(
    name: str, fields: Iterable[tuple[str, str]], examples: Sequence[Example]
) -> list[tuple[str, str]]:
    facts = [(example, fact_value(example.facts[name])) for example in examples if name in example.facts]

    def values(example: Example, origin: str, field: str) -> list[Any]:
        places = value_locations(getattr(example, origin))
        return [fact_value(place.value) for place in places if place.name == field]

    return [place for place in fields if facts and all(values(example, *place) == [fact] for example, fact in facts)]


def _fact_names(source: str) -> Iterator[str]:
    """Yields the names of facts that a program reads by literal."""
    for node in ast.walk(syntax.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="facts"), attr="get"), args=[ast.Constant(value=str(name)), *_]
            ):
                yield name
            case ast.Subscript(value=ast.Name(id="facts"), slice=ast.Constant(value=str(name))):
                yield name
            case ast.Compare(
                left=ast.Constant(value=str(name)), ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id="facts")]
            ):
                yield name
            case _:
                pass


def _snake(name: str) -> str:
    """Returns the last key of a path in snake case, as facts are named."""
    return re.sub(r"[\s-]+", "_", name.rpartition(".")[2]).lower()
