"""Reads a strict subset of YAML, or a Python mapping, into nodes with their places. A misread rule protects nothing.

The subset: one document, no tags, no anchors or aliases, no merge keys, unique string keys, and limits on depth and
number of nodes. Errors of the YAML parser are explained to authors of rules: mostly, a string needs quotes.

Nodes of a mapping keep their path of keys, as nodes of a YAML file keep their lines. The limits and the allowed types
are the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import yaml

from guardagent.errors import ContentError
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, SourceText, shortened

if TYPE_CHECKING:
    from yaml import MarkedYAMLError


# --- errors

QUOTE = "quote the whole string, or write it on the lines below a '|'"

# (pattern of the context and problem of PyYAML, explanation). FOUND stands for the character at the place.
_EXPLANATIONS = (
    (r"character '\\t'", "a tab at the start of a line or value; expected spaces"),
    (
        r"character .* cannot start|node content, but found '(?!<stream end>)",
        "an unquoted string cannot begin with 'FOUND'; QUOTE",
    ),
    (r"entries are not|keys are not", "an unquoted string cannot begin with '- ' or '? '; QUOTE"),
    (r"an? (anchor|alias|tag)|undefined tag", "an unquoted string cannot begin with '&', '*' or '!'; QUOTE"),
    (r"values are not", "the part before ': ' is a key, and no key is allowed here; correct the indentation, or QUOTE"),
    (
        r"quoted scalar.*(end of stream|document sep)",
        "the quote that opens here is not closed; expected a closing quote",
    ),
    (
        r"unknown escape",
        r"'\FOUND' is not an escape in double quotes; write two backslashes, or use single quotes or a '|'",
    ),
    (
        r"hexadecimal",
        r"'\x', '\u' and '\U' in double quotes need 2, 4 and 8 digits; write the digits, or use single quotes",
    ),
    (r"a flow", "an unquoted '[' or '{' begins a list or a mapping; close it, or QUOTE"),
    (r"a block scalar", "text follows '|' or '>'; write the string on the next lines, or QUOTE"),
    (r"a single document", "a second document begins here; expected one document, without '---'"),
    (r"a directive|YAML document", "a line that begins with '%' is a directive; remove it"),
    (r"<document start>", "text follows the end of the value; remove it, or QUOTE"),
    (r"'<scalar>'", "text follows a quote or a comment, or is indented too little; indent it further, or QUOTE"),
    (r"a simple key", "expected 'key: value'; if the line continues a string, indent it further"),
    (r"a block (mapping|collection)", "the line is not aligned with the lines above; expected the same indentation"),
)
# Errors about a missing end are reported at the beginning, where the author mends them.
_AT_ITS_BEGINNING = ("end of stream", "stream end", "could not find expected")


def explain_error(error: MarkedYAMLError, text: str, path: Path) -> ContentError:
    """The error with its line, the problem and the remedy."""
    problem = ", ".join(filter(None, (error.context, error.problem)))
    begins = any(words in problem for words in _AT_ITS_BEGINNING)
    mark = (error.context_mark if begins else None) or error.problem_mark
    character = text[mark.index : mark.index + 1] if mark else ""
    explanation = next(
        (meaning for pattern, meaning in _EXPLANATIONS if re.search(pattern, problem, re.DOTALL)), problem
    )
    message = explanation.replace("FOUND", character).replace("QUOTE", QUOTE)
    return ContentError(f"invalid YAML: {message}", path, mark.line + 1 if mark else 1)


# --- YAML

MAX_DEPTH = 32
MAX_PARTS = 20_000  # read in about a second

_TAG = "tag:yaml.org,2002:"
_TAG_KINDS = {"bool": "boolean", "int": "number", "float": "number", "timestamp": "date", "null": "null"}
_COMMENT = re.compile(r"[ \t]+#")
_COMMA = re.compile(r"\s*,")
_SURROGATE = re.compile("[\ud800-\udfff]")
_READ_DIFFERENTLY = re.compile(r"[\t\ufeff]|[|>][-+0-9]*#|(?<![^\s,:?\[{-])\?(?!\S)")  # by libyaml and by PyYAML


def parse(data: bytes, path: Path, folder: Path | None) -> SourceNode | None:
    """Parses YAML; returns None for an empty document.

    Libyaml reads the files that it reads as PyYAML does. PyYAML reads all others, and words the errors.

    Args:
        data: the bytes of the file.
        path: the location in messages.
        folder: the base of relative paths.

    Raises:
        ContentError: the data is not UTF-8, not YAML, or outside of the subset.
    """
    text = _decoded(data, path)
    if (fast_parser := _fast_parser()) is not None and not _READ_DIFFERENTLY.search(text):
        try:
            return _TreeReader(fast_parser(text), text, path, folder, fast=True).document()
        except (yaml.YAMLError, ContentError):
            pass
    try:
        parser = yaml.SafeLoader(text)
        return _TreeReader(parser, text, path, folder).document()
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise ContentError(
            f"the character U+{error.character:04X} is not allowed in YAML; remove it", path, line
        ) from None
    except yaml.MarkedYAMLError as error:
        raise explain_error(error, text, path) from None
    except (ValueError, OverflowError):  # chr() of the number in an escape
        problem = "a '\\U' escape is not a character; expected a code point up to 10FFFF"
        raise ContentError(problem, path, parser.get_mark().line + 1) from None


@cache
def _fast_parser() -> Any:
    """The parser of libyaml; None where PyYAML is built without it."""
    if not yaml.__with_libyaml__:
        return None
    from yaml.cyaml import CParser  # type: ignore[attr-defined]

    return CParser


def _decoded(data: bytes, path: Path) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        raise ContentError("begins with a byte order mark; expected UTF-8 without one", path, 1)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ContentError(f"byte {error.start} is not UTF-8; expected UTF-8 text", path, line) from None


class _TreeReader:
    """Reads source nodes from the events of a parser. Rejects nodes outside of the subset before they can grow."""

    def __init__(self, parser: Any, text: str, path: Path, folder: Path | None, *, fast: bool = False) -> None:
        self._next, self._text, self._path, self._folder, self._fast = parser.get_event, text, path, folder, fast
        self._depth = self._parts = 0

    def document(self) -> SourceNode | None:
        self._next()  # the start of the stream
        start = self._next()
        if isinstance(start, yaml.StreamEndEvent):
            return None
        root = self._node(self._next())
        self._next()  # the end of the document
        if not isinstance(event := self._next(), yaml.StreamEndEvent):
            expected = "expected a single document in the stream"
            raise yaml.composer.ComposerError(
                expected, start.start_mark, "but found another document", event.start_mark
            )
        return root

    def _node(self, event: Any, key_line: int = 0, *, flow: bool = False) -> SourceNode:
        line = event.start_mark.line + 1
        self._enter(event)
        value: dict[str, SourceNode] | list[SourceNode] | SourceText | SourceScalar
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, flow=flow)
        elif isinstance(event, yaml.MappingStartEvent):
            value = self._mapping(flow=bool(event.flow_style))
        else:
            value = self._items(flow=bool(event.flow_style))
        self._depth -= 1
        return SourceNode(value, self._path, line, key_line or line, self._folder)

    def _enter(self, event: Any) -> None:
        self._depth, self._parts = self._depth + 1, self._parts + 1
        if problem := self._problem(event):
            raise ContentError(problem, self._path, event.start_mark.line + 1)

    def _problem(self, event: Any) -> str:
        if isinstance(event, yaml.AliasEvent):
            return f"'*{event.anchor}' is a YAML alias; aliases are not allowed: write the value itself, or {QUOTE}"
        if event.anchor is not None:
            return f"'&{event.anchor}' is a YAML anchor; anchors are not allowed: write the value alone, or {QUOTE}"
        if event.tag is not None:
            tag = shortened(event.tag.replace(_TAG, "!!"))
            return f"'{tag}' is a YAML tag, since it begins with '!'; tags are not allowed: {QUOTE}"
        if self._depth > MAX_DEPTH:
            return f"is nested deeper than {MAX_DEPTH} levels; expected fewer levels"
        if self._parts > MAX_PARTS:
            return f"has more than {MAX_PARTS:,} keys and values; split the file"
        return ""

    def _items(self, *, flow: bool) -> list[SourceNode]:
        items = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(event, flow=flow))
        return items

    def _mapping(self, *, flow: bool) -> dict[str, SourceNode]:
        values: dict[str, SourceNode] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            key, value = self._key(event, line, flow=flow)
            if key in values:
                first = values[key].key_line
                problem = f"key {shortened(key)!r} appears twice, first in line {first}; remove one"
                raise ContentError(problem, self._path, line)
            values[key] = self._node(value, line, flow=flow)
        return values

    def _key(self, event: Any, line: int, *, flow: bool) -> tuple[str, Any]:
        """Reads a key; returns it and the first event of its value."""
        kind = _kind(event)
        if kind == "merge":
            raise ContentError("'<<' is a YAML merge key; write the keys themselves", self._path, line)
        key, value = self._node(event, flow=flow), self._next()
        if isinstance(key.value, SourceText):
            return key.value.text, value
        if kind == "bool" and event.value == "on" and _kind(value) == "str":  # that of a counter's pattern
            return "on", value
        raise ContentError(f"a key is {key.description}; expected a string; if it is one, quote it", self._path, line)

    def _scalar(self, event: Any, *, flow: bool) -> SourceText | SourceScalar:
        if self._fast and not event.style and (not event.value or (flow and "?" in event.value)):
            raise yaml.YAMLError("libyaml takes another place for an empty value, and strings that PyYAML refuses")
        start, end, kind = event.start_mark.index, event.end_mark.index, _kind(event)
        if kind in _TAG_KINDS:
            return SourceScalar(self._constructed(event, kind), _TAG_KINDS[kind], self._text[start:end])
        hint = "" if event.style else self._hint(end, flow=flow)
        text = SourceText(event.value, self._path, event.start_mark.line + 1, self._text[start:end], hint)
        if event.style == '"' and _SURROGATE.search(event.value):
            raise text.error("a '\\u' escape is half of a surrogate pair; expected a complete character")
        return text

    def _constructed(self, event: Any, kind: str) -> Any:
        if kind == "timestamp":  # policies use no dates; and not all are valid, such as 2024-13-45
            return event.value
        try:
            return yaml.constructor.SafeConstructor().construct_object(yaml.ScalarNode(f"{_TAG}{kind}", event.value))
        except ValueError:
            line = event.start_mark.line + 1
            raise ContentError(f"{shortened(event.value)!r} is not a valid number", self._path, line) from None

    def _hint(self, end: int, *, flow: bool) -> str:
        """The likely misreading of an unquoted string that ends at a place."""
        if _COMMENT.match(self._text, end):
            return f"text after ' #' is a YAML comment: to keep it, {QUOTE}"
        if flow and _COMMA.match(self._text, end):
            return "inside of [ ] and { }, a comma ends an unquoted string: to keep the rest, quote the whole string"
        return ""


def _kind(event: Any) -> str:
    """The kind of a scalar by YAML 1.1: `str`, `bool`, `int` and so on; an empty string for other events."""
    if not isinstance(event, yaml.ScalarEvent):
        return ""
    resolvers = () if event.style else yaml.SafeLoader.yaml_implicit_resolvers.get(event.value[:1], ())
    return next((tag.removeprefix(_TAG) for tag, pattern in resolvers if pattern.match(event.value)), "str")


# --- Python mappings

_TYPE_KINDS = {bool: "boolean", int: "number", float: "number", type(None): "null"}
_MAX_BITS = 10_000  # of an integer: Python does not print longer ones


def nodes_of(data: Mapping[str, Any], folder: Path | None) -> SourceNode:
    """Converts a mapping to source nodes.

    Args:
        data: the content of a policy file.
        folder: the base of relative paths.

    Raises:
        ContentError: a key or value cannot occur in a policy file; with its path of keys.
    """
    return _MappingReader(folder).node(data, "data", 1)


class _MappingReader:
    def __init__(self, folder: Path | None) -> None:
        self._folder, self._parts = folder, 0

    def node(self, value: Any, place: str, depth: int) -> SourceNode:
        self._parts += 1
        if depth > MAX_DEPTH:
            _fail(place, f"is nested deeper than {MAX_DEPTH} levels; expected fewer levels")
        if self._parts > MAX_PARTS:
            _fail(place, f"has more than {MAX_PARTS:,} keys and values; split the policies")
        return SourceNode(self._value(value, place, depth), Path(place), 0, 0, self._folder)

    def _value(
        self, value: Any, place: str, depth: int
    ) -> dict[str, SourceNode] | list[SourceNode] | SourceText | SourceScalar:
        if isinstance(value, Mapping):
            return dict(self._fields(value, place, depth))
        if isinstance(value, list | tuple):
            return [self.node(item, f"{place}[{at}]", depth + 1) for at, item in enumerate(value)]
        if isinstance(value, str):
            return SourceText(_valid_string(value, place), Path(place), 0)
        if not _is_scalar(value):
            name = type(value).__name__
            _fail(
                place,
                f"has the type {name!r}; expected a string, a finite number, a boolean, None, a list or a mapping",
            )
        return SourceScalar(value, _TYPE_KINDS[type(value)], "" if value is None else repr(value))

    def _fields(self, values: Mapping[Any, Any], place: str, depth: int) -> Iterator[tuple[str, SourceNode]]:
        for key, value in values.items():
            if not isinstance(key, str):
                _fail(place, f"a key has the type {type(key).__name__!r}; expected a string")
            self._parts += 1
            name = _valid_string(key, place)
            yield name, self.node(value, f"{place}.{shortened(name)}", depth + 1)


def _is_scalar(value: Any) -> bool:
    if type(value) is int:
        return value.bit_length() < _MAX_BITS
    return type(value) in _TYPE_KINDS and (type(value) is not float or math.isfinite(value))


def _valid_string(text: str, place: str) -> str:
    if any("\ud800" <= sign <= "\udfff" for sign in text):
        _fail(place, "contains half of a surrogate pair; expected complete characters")
    return str.__str__(text)  # str() of an enumeration member gives its name


def _fail(place: str, problem: str) -> NoReturn:
    raise ContentError(problem, place)
