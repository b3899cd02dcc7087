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
    (r"character .* cannot start|node content", "an unquoted string cannot begin with 'FOUND'; QUOTE"),
    (r"entries are not|keys are not", "an unquoted string cannot begin with '- ' or '? '; QUOTE"),
    (r"an? (anchor|alias|tag)|undefined tag", "an unquoted string cannot begin with '&', '*' or '!'; QUOTE"),
    (
        r"values are not",
        "the part before ': ' is a key, and no key is allowed here; correct the indentation, or QUOTE",
    ),
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
    (
        r"'<scalar>'",
        "text follows a quote or a comment, or is indented too little; indent it further, or QUOTE",
    ),
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


def parse(data: bytes, path: Path, folder: Path | None, *, fast: bool = False) -> SourceNode | None:
    """Parses YAML; returns None for an empty document.

    Args:
        data: the bytes of the file.
        path: the location in messages.
        folder: the base of relative paths.
        fast: whether libyaml may read it, where it is there. It differs from PyYAML in corners of the syntax, so it
            reads nothing that is enforced as it stands.

    Raises:
        ContentError: the data is not UTF-8, not YAML, or outside of the subset.
    """
    text = _decoded(data, path)
    if fast and (loader_type := _fast_loader()) is not None:
        try:
            return _parsed(loader_type(text, path), text, path, folder)
        except yaml.YAMLError:
            pass  # PyYAML explains it better
    return _parsed_with_reasons(text, path, folder)


def _parsed_with_reasons(text: str, path: Path, folder: Path | None) -> SourceNode | None:
    try:
        return _parsed(_StrictLoader(text, path), text, path, folder)
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise ContentError(
            f"the character U+{error.character:04X} is not allowed in YAML; remove it", path, line
        ) from None
    except yaml.MarkedYAMLError as error:
        raise explain_error(error, text, path) from None


def _parsed(loader: Any, text: str, path: Path, folder: Path | None) -> SourceNode | None:
    root = loader.get_single_node()
    return _NodeBuilder(loader, text, path, folder).node(root) if root else None


def _decoded(data: bytes, path: Path) -> str:
    if data.startswith(b"\xef\xbb\xbf"):
        raise ContentError("begins with a byte order mark; expected UTF-8 without one", path, 1)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ContentError(f"byte {error.start} is not UTF-8; expected UTF-8 text", path, line) from None


class _StrictComposer(yaml.composer.Composer):
    """Rejects nodes outside of the subset while it loads, before they can grow."""

    def __init__(self, text: str, path: Path) -> None:
        super().__init__(text)  # type: ignore[call-arg]  # of the loader that this is a part of
        self._begin(path)

    def _begin(self, path: Path) -> None:
        self._path, self._depth, self._parts = path, 0, 0

    def get_single_node(self) -> yaml.Node | None:
        try:
            return super().get_single_node()
        except (ValueError, OverflowError):  # chr() of the number in an escape
            line = self.get_mark().line + 1  # type: ignore[attr-defined]
            raise ContentError(
                "a '\\U' escape is not a character; expected a code point up to 10FFFF", self._path, line
            ) from None

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[attr-defined]  # of the parser that this is combined with
        self._depth, self._parts = self._depth + 1, self._parts + 1
        if problem := self._problem(event):
            raise ContentError(problem, self._path, event.start_mark.line + 1)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

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


class _StrictLoader(_StrictComposer, yaml.SafeLoader):
    """Reads with PyYAML."""


@cache
def _fast_loader() -> Any:
    """A loader that reads with libyaml; None where PyYAML is built without it."""
    if not yaml.__with_libyaml__:
        return None
    from yaml.cyaml import CParser  # type: ignore[attr-defined]

    class FastLoader(_StrictComposer, CParser, yaml.constructor.SafeConstructor, yaml.resolver.Resolver):
        def __init__(self, text: str, path: Path) -> None:
            CParser.__init__(self, text)
            yaml.composer.Composer.__init__(self)
            yaml.constructor.SafeConstructor.__init__(self)
            yaml.resolver.Resolver.__init__(self)
            self._begin(path)

    return FastLoader


class _NodeBuilder:
    """Converts nodes of PyYAML to source nodes."""

    def __init__(self, loader: yaml.SafeLoader, text: str, path: Path, folder: Path | None) -> None:
        self._loader, self._text, self._path, self._folder = loader, text, path, folder

    def node(self, node: yaml.Node, key_line: int = 0, *, flow: bool = False) -> SourceNode:
        line = node.start_mark.line + 1
        return SourceNode(self._value(node, flow=flow), self._path, line, key_line or line, self._folder)

    def _value(
        self, node: yaml.Node, *, flow: bool
    ) -> dict[str, SourceNode] | list[SourceNode] | SourceText | SourceScalar:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode):
            return [self.node(item, flow=bool(node.flow_style)) for item in node.value]
        assert isinstance(node, yaml.ScalarNode)
        return self._scalar(node, flow=flow)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, SourceNode]:
        values: dict[str, SourceNode] = {}
        for key_node, value in node.value:
            line = key_node.start_mark.line + 1
            key = "on" if _is_pattern_key(key_node, value) else self._key(key_node, line)
            if key in values:
                first = values[key].key_line
                problem = f"key {shortened(key)!r} appears twice, first in line {first}; remove one"
                raise ContentError(problem, self._path, line)
            values[key] = self.node(value, line, flow=bool(node.flow_style))
        return values

    def _key(self, node: yaml.Node, line: int) -> str:
        if node.tag == f"{_TAG}merge":
            raise ContentError("'<<' is a YAML merge key; write the keys themselves", self._path, line)
        key = self.node(node)
        if isinstance(key.value, SourceText):
            return key.value.text
        raise ContentError(f"a key is {key.description}; expected a string; if it is one, quote it", self._path, line)

    def _scalar(self, node: yaml.ScalarNode, *, flow: bool) -> SourceText | SourceScalar:
        source = self._text[node.start_mark.index : node.end_mark.index]
        kind = node.tag.removeprefix(_TAG)
        if kind in _TAG_KINDS:
            return SourceScalar(self._constructed(node, kind), _TAG_KINDS[kind], source)
        text = SourceText(node.value, self._path, node.start_mark.line + 1, source, self._hint(node, flow=flow))
        if any("\ud800" <= sign <= "\udfff" for sign in text.text):
            raise text.error("a '\\u' escape is half of a surrogate pair; expected a complete character")
        return text

    def _constructed(self, node: yaml.ScalarNode, kind: str) -> Any:
        if kind == "timestamp":  # policies use no dates; and not all are valid, such as 2024-13-45
            return node.value
        try:
            return self._loader.construct_object(node)
        except ValueError:
            line = node.start_mark.line + 1
            raise ContentError(f"{shortened(node.value)!r} is not a valid number", self._path, line) from None

    def _hint(self, node: yaml.ScalarNode, *, flow: bool) -> str:
        if node.style:  # it is quoted
            return ""
        if _COMMENT.match(self._text, node.end_mark.index):
            return f"text after ' #' is a YAML comment: to keep it, {QUOTE}"
        if flow and _COMMA.match(self._text, node.end_mark.index):
            return "inside of [ ] and { }, a comma ends an unquoted string: to keep the rest, quote the whole string"
        return ""


def _is_pattern_key(key: yaml.Node, value: yaml.Node) -> bool:
    """Whether a key is that of a counter's pattern. YAML reads it as a boolean."""
    is_word = isinstance(key, yaml.ScalarNode) and key.value == "on" and not key.style
    return is_word and isinstance(value, yaml.ScalarNode) and value.tag == f"{_TAG}str"


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
