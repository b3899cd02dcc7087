"""Readers of the values of policy-file keys. Each validates a value and gives the JSON Schema of what it accepts."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, TypeVar

from guardagent._support.syntax import PatternError, compile_pattern
from guardagent.errors import ContentError, name_hint
from guardagent.policy.file.source_tree import SourceNode, SourceScalar, SourceText, shortened
from guardagent.policy.file.yaml_reader import QUOTE

MAX_NAME = 200
PERMITTED_FILES: ContextVar[Callable[[Path], bool] | None] = ContextVar("permitted_files", default=None)
"""Whether a policy may refer to a file; None for any. Nothing is looked up about another one."""
_LINE = f"one line of at most {MAX_NAME} characters, without surrounding spaces"
_TEXT_SCHEMA = {"type": "string", "pattern": r"\S"}
_LINE_SCHEMA = {"type": "string", "pattern": r"^\S(?:.*\S)?$", "maxLength": MAX_NAME}
_NO_PATTERN_SCHEMA = {"not": {"pattern": r"^@|^tool:|\*"}}

Schema = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ValueReader(Generic[T]):
    """Converts the node of a key to a value, and gives the JSON Schema of the nodes that it accepts."""

    read: Callable[[SourceNode, Key], T]
    schema: Callable[[Key], Schema]

    def __call__(self, node: SourceNode, key: Key) -> T:
        return self.read(node, key)


def reads(schema: Callable[[Key], Schema]) -> Callable[[Callable[[SourceNode, Key], T]], ValueReader[T]]:
    """Decorates a function as a reader with a schema."""
    return lambda read: ValueReader(read, schema)


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a mapping, or the items of a list.

    Attributes:
        read: converts the node to a value.
        expected: the expected value in error messages.
        description: the purpose of the key, for editors.
        choices: the allowed strings, or file suffixes.
        keys: the keys of a mapping.
        item: the items of a list, or the values of a mapping by name.
    """

    name: str
    read: ValueReader[Any]
    expected: str
    description: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    keys: Mapping[str, Key] = field(default_factory=dict)
    item: Key | None = None

    def mismatch(self, node: SourceNode, advice: str = "") -> ContentError:
        """The error for a node of the wrong kind."""
        message = f"{self.name!r} is {node.description}; expected {self.expected}{advice}"
        return ContentError(message, node.path, node.line)

    @property
    def schema(self) -> Schema:
        """The JSON Schema of accepted nodes."""
        about = {"description": self.description} if self.description else {}
        return about | self.read.schema(self)


def keys(*known: Key) -> dict[str, Key]:
    return {key.name: key for key in known}


def _object_schema(key: Key) -> Schema:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name for name, inner in key.keys.items() if inner.required],
        "properties": {name: inner.schema for name, inner in key.keys.items()},
    }


@reads(_object_schema)
def mapping(node: SourceNode, key: Key) -> dict[str, Any]:
    """Reads a mapping with known keys; each value by the reader of its key."""
    check_keys(node, key)
    return {name: key.keys[name].read(value, key.keys[name]) for name, value in node.fields.items()}


def check_keys(node: SourceNode, key: Key) -> None:
    """Requires a mapping with all required keys and no unknown ones. Values are not checked."""
    if not isinstance(node.value, dict):
        raise key.mismatch(node)
    for name, value in node.value.items():
        if name not in key.keys:
            raise value.error(f"unknown key {shortened(name)!r} in {key.name}{name_hint(name, key.keys)}")
    for name, inner in key.keys.items():
        if inner.required and name not in node.value:
            raise node.error(f"key {name!r} is missing in {key.name}; expected {inner.expected}")


def _names_schema(key: Key) -> Schema:
    return {"type": "object", "propertyNames": _LINE_SCHEMA, "additionalProperties": _item_schema(key)}


@reads(_names_schema)
def by_name(node: SourceNode, key: Key) -> dict[str, Any]:
    """Reads a mapping of arbitrary names to items of one kind."""
    if not isinstance(node.value, dict):
        raise key.mismatch(node)
    for name, value in node.value.items():
        if not _is_line(name):
            raise value.error(f"{shortened(name)!r} is not a valid name; expected {_LINE}")
    return {name: _item(value, key) for name, value in node.value.items()}


def _array_schema(key: Key) -> Schema:
    item = _item_schema(key)
    unique = {} if "properties" in item else {"uniqueItems": True}
    return {"type": "array", "minItems": 1, **unique, "items": item}


@reads(_array_schema)
def items(node: SourceNode, key: Key) -> tuple[Any, ...]:
    """Reads a list that is not empty and has no duplicates."""
    if not isinstance(node.value, list) or not node.value:
        raise key.mismatch(node)
    seen: set[Any] = set()
    for item in node.value:
        if isinstance(item.value, SourceText | SourceScalar):
            identity = (type(item.plain), item.plain)
            if identity in seen:
                raise item.error(f"{key.name!r} contains {shortened(str(item.plain))!r} twice; remove one")
            seen.add(identity)
    return tuple(_item(item, key) for item in node.value)


@reads(lambda key: {"oneOf": [_item_schema(key), _array_schema(key)]})
def one_or_more(node: SourceNode, key: Key) -> tuple[Any, ...]:
    """Reads one item or a list of items."""
    return items(node, key) if isinstance(node.value, list) else (_item(node, key),)


def _item(node: SourceNode, key: Key) -> Any:
    assert key.item is not None
    return key.item.read(node, key.item)


def _item_schema(key: Key) -> Schema:
    assert key.item is not None
    return key.item.schema


@reads(lambda _: _TEXT_SCHEMA)
def text(node: SourceNode, key: Key) -> SourceText:
    """Reads a string that is not empty."""
    if isinstance(node.value, SourceText) and node.value.text.strip():
        return node.value
    raise key.mismatch(node, _advice(node))


@reads(text.schema)
def plain_text(node: SourceNode, key: Key) -> str:
    return text(node, key).text


@reads(lambda _: _LINE_SCHEMA)
def line(node: SourceNode, key: Key) -> SourceText:
    """Reads a string of one line, such as a name."""
    node_text = text(node, key)
    if not _is_line(node_text.text):
        raise key.mismatch(node, f": {_LINE}")
    return node_text


@reads(line.schema)
def name(node: SourceNode, key: Key) -> str:
    return line(node, key).text


@reads(lambda _: _LINE_SCHEMA | _NO_PATTERN_SCHEMA)
def tool_name(node: SourceNode, key: Key) -> SourceText:
    """Reads the name of one tool."""
    node_line = line(node, key)
    _require_tool(node_line.text, node)
    return node_line


@reads(lambda key: _names_schema(key) | {"minProperties": 1, "propertyNames": _LINE_SCHEMA | _NO_PATTERN_SCHEMA})
def by_tool(node: SourceNode, key: Key) -> dict[str, Any]:
    """Reads a mapping of one or more tools to items of one kind."""
    tools = by_name(node, key)
    if not tools:
        raise node.error(f"{key.name!r} is empty; expected {key.expected}")
    for tool, value in node.fields.items():
        _require_tool(tool, value)
    return tools


def _require_tool(tool: str, node: SourceNode) -> None:
    """Rejects patterns, tags and atoms: each would stand for a tool that is never called."""
    if tool.startswith(("@", "tool:")) or "*" in tool:
        raise node.error(f"{shortened(tool)!r} is not the name of a tool; expected a name without '@', 'tool:' and '*'")


@reads(lambda key: {"enum": list(key.choices)})
def choice(node: SourceNode, key: Key) -> str:
    node_text = text(node, key)
    if node_text.text not in key.choices:
        raise node_text.error(f"{key.name!r} is {node.description}{name_hint(node_text.text, key.choices)}")
    return node_text.text


@reads(lambda _: {"type": "boolean"})
def flag(node: SourceNode, key: Key) -> bool:
    if isinstance(node.value, SourceScalar) and isinstance(node.value.value, bool):
        return node.value.value
    raise key.mismatch(node)


@reads(lambda _: {"type": ["string", "number", "boolean"]})
def value(node: SourceNode, key: Key) -> Any:
    """Reads a string, a number or a boolean, in a spelling that all readers of YAML take for the same value."""
    scalar = node.value
    if isinstance(scalar, SourceText) and scalar.text == scalar.source and _NUMBER_ELSEWHERE.fullmatch(scalar.text):
        digits = f"{Decimal(scalar.text):f}" if len(scalar.text) < _SHORT and "o" not in scalar.text else "plain digits"
        raise _ambiguous(node, scalar.text, "a string", digits)
    if isinstance(scalar, SourceScalar) and scalar.kind in ("number", "boolean") and scalar.value - scalar.value == 0:
        if node.line and not _UNAMBIGUOUS.fullmatch(scalar.source):
            written = str(scalar.value).lower()
            raise _ambiguous(node, scalar.source, f"the {scalar.kind} {written}", written)
        return node.plain
    if isinstance(scalar, SourceText):
        return node.plain
    raise key.mismatch(node)


_UNAMBIGUOUS = re.compile(
    r"[-+]?(?:0|[1-9]\d*)(?:\.\d*(?:[eE][-+]\d+)?)?|[-+]?\.\d+(?:[eE][-+]\d+)?|true|True|TRUE|false|False|FALSE",
    re.ASCII,
)
_NUMBER_ELSEWHERE = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)[eE][-+]?\d{1,3}|[-+]?0\d+|0o[0-7]+", re.ASCII)
_SHORT = 40


def _ambiguous(node: SourceNode, source: str, here: str, right: str) -> ContentError:
    problem = f"{shortened(source)!r} is {here} here, and another value for other readers of YAML"
    return ContentError(
        f'{problem}; write {right}, or the string in quotes: "{shortened(source)}"', node.path, node.line
    )


@reads(text.schema)
def regular_expression(node: SourceNode, key: Key) -> str:
    """Reads a regular expression (RE2)."""
    node_text = text(node, key)
    try:
        compile_pattern(node_text.text)
    except PatternError as error:
        raise node_text.error(
            f"{key.name!r} is not a valid regular expression: {shortened(str(error))}; expected RE2 syntax"
        ) from None
    return node_text.text


@reads(lambda key: _TEXT_SCHEMA | ({"pattern": _ending(key)} if key.choices else {}))
def file(node: SourceNode, key: Key) -> Path:
    """Reads the path of a file: in the folder of the policy file, or absolute."""
    named = plain_text(node, key)
    if Path(os.path.normpath(named)).parts[:1] == (os.pardir,):
        raise node.error(
            f"{shortened(named)!r} is outside of the policy file's folder; expected a file inside, or an absolute path"
        )
    return _existing(named, node, key)


@reads(file.schema)
def any_file(node: SourceNode, key: Key) -> Path:
    """Reads the path of a file in any folder."""
    return _existing(plain_text(node, key), node, key)


def _existing(named: str, node: SourceNode, key: Key) -> Path:
    if node.folder is None and not Path(named).is_absolute():
        raise node.error(
            f"{shortened(named)!r} is a relative path; expected an absolute path, or its base as 'folder='"
        )
    path = (node.folder or Path()) / named
    if (permits := PERMITTED_FILES.get()) is not None and not permits(path):
        raise node.error(f"refers to {shortened(path.name)!r}, which the live policy does not; use its files")
    if not named.endswith(key.choices or "") or not _is_file(path):
        raise node.error(f"no such file: {shortened(named)!r}; expected {key.expected}{_siblings(path, key)}")
    return path


def _ending(key: Key) -> str:
    return f"(?:{'|'.join(map(re.escape, key.choices))})$"


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # the name is too long, or not valid Unicode
        return False


def _siblings(path: Path, key: Key) -> str:
    try:
        known = [file.name for file in path.parent.iterdir() if file.name.endswith(key.choices or "")]
    except (OSError, ValueError):
        return ""
    return name_hint(path.name, known) if known else ""


def _is_line(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME and text.isprintable() and text == text.strip()


def _advice(node: SourceNode) -> str:
    if not node.line:  # in a mapping nothing is quoted
        return ""
    match node.value:
        case SourceScalar(source=""):
            return ""
        case SourceScalar():
            return "; if it is meant as a string, quote it"
        case dict():
            return f"; if it is meant as a string, which cannot begin with '{{' or contain ': ', {QUOTE}"
        case list():
            return f"; if it is meant as a string, which cannot begin with '[' or '- ', {QUOTE}"
    return ""
