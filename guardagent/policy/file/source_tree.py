"""The tree of values of a policy file. Each node keeps its line, or its path of keys in a mapping."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent.errors import ContentError
from guardagent.policy.file.source_text import SourceText


@dataclass(frozen=True, slots=True)
class SourceScalar:
    """A scalar that is not a string: a boolean, a number, a date or null."""

    value: Any
    kind: str
    source: str


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A value of a policy file or mapping.

    Attributes:
        path: the file, or the path of keys in a mapping.
        line: the first line of the value; 0 in a mapping.
        key_line: the line of its key; without a key, as `line`.
        folder: the base of relative paths; None allows absolute paths only.
    """

    value: dict[str, SourceNode] | list[SourceNode] | SourceText | SourceScalar
    path: Path
    line: int
    key_line: int
    folder: Path | None

    def error(self, message: str) -> ContentError:
        """An error at the key of this value."""
        return ContentError(message, self.path, self.key_line)

    @property
    def location(self) -> str:
        """Its file and first line, or its path of keys."""
        return f"{self.path}:{self.line}" if self.line else str(self.path)

    @property
    def key_location(self) -> str:
        """Its file and the line of its key, or its path of keys."""
        return f"{self.path}:{self.key_line}" if self.key_line else str(self.path)

    @property
    def fields(self) -> dict[str, SourceNode]:
        """The entries of a mapping; empty for other values."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[SourceNode]:
        """The items of a list; empty for other values."""
        return self.value if isinstance(self.value, list) else []

    @property
    def plain(self) -> Any:
        """The value without source positions."""
        match self.value:
            case dict() as values:
                return {key: node.plain for key, node in values.items()}
            case list() as items:
                return [node.plain for node in items]
            case SourceText(text=value) | SourceScalar(value=value):
                return value

    @property
    def description(self) -> str:
        """The value in an error message: "'version' is …; expected …"."""
        match self.value:
            case dict():
                return "a mapping"
            case list():
                return "a list" if self.value else "an empty list"
            case SourceText(text=text):
                return f"the string {shortened(text)!r}" if text.strip() else "an empty string"
            case SourceScalar(source=""):
                return "empty"
            case SourceScalar(kind=kind, source=source):
                article = kind if kind == "null" else f"a {kind}"
                return f"{shortened(source)!r}, which {'YAML reads as' if self.line else 'is'} {article}"


def shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
