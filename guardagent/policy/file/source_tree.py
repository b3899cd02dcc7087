"""What stands in a policy file: values of which every part knows its line, or the keys that lead to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent.errors import ContentError
from guardagent.policy.file.source_text import SourceText


@dataclass(frozen=True, slots=True)
class SourceScalar:
    """Something else than a text: a boolean, a number, a date or null."""

    value: Any
    kind: str
    source: str


@dataclass(frozen=True, slots=True)
class SourceNode:
    """A value of a file, or of a mapping.

    Attributes:
        path: the file; of a value in a mapping, the keys that lead to it.
        line: where it begins; 0 in a mapping.
        key_line: where its key stands; where it begins itself, if it has none.
        folder: where the files lie that it may name; None where only absolute paths can be found.
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
    def fields(self) -> dict[str, SourceNode]:
        """What it holds, if it is a mapping."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> list[SourceNode]:
        """What it holds, if it is a list."""
        return self.value if isinstance(self.value, list) else []

    @property
    def plain(self) -> Any:
        """The value without its places."""
        match self.value:
            case dict() as values:
                return {key: node.plain for key, node in values.items()}
            case list() as items:
                return [node.plain for node in items]
            case SourceText(text=value) | SourceScalar(value=value):
                return value

    @property
    def description(self) -> str:
        """What stands here, for a message that says what was expected instead."""
        match self.value:
            case dict():
                return "a mapping"
            case list():
                return "a list" if self.value else "an empty list"
            case SourceText(text=text):
                return repr(shortened(text)) if text.strip() else "an empty text"
            case SourceScalar(source=""):
                return "nothing"
            case SourceScalar(kind=kind, source=source):
                return f"`{shortened(source)}` (a {kind}{' to YAML' if self.line else ''})"


def shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
