"""The lines of a policy file, sliced at its keys and rules, so that unchanged ones can be written back as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from guardagent.errors import ContentError
from guardagent.policy.file.policy_file import read_single_file
from guardagent.policy.file.rule_keys import COUNTER
from guardagent.policy.file.source_tree import SourceNode
from guardagent.policy.file.yaml_reader import parse
from guardagent.translation.drafts import DECLARATIONS, RuleDraft

BREAKS = "\n\r\x85\u2028\u2029"  # line breaks in YAML
_LINE = re.compile(rf"[^{BREAKS}]*(?:\r\n|[{BREAKS}]|\Z)")
_ITEM = re.compile(r"( *)- *[^\s#]")
_OPENING = re.compile(r":\s*(#.*)?$")
_EXPECTED = "expected one line or more for each key and each policy, as 'guardagent translate' writes them"


@dataclass(frozen=True, slots=True)
class EntryLines:
    """A rule or a declaration: the comments above it, and its own lines."""

    above: str
    own: str


@dataclass(frozen=True, slots=True)
class SectionLines:
    """A key at the top of the file.

    Attributes:
        above: the comments above it.
        own: its own lines.
        opening: the own lines before its first entry.
        entries: the lines of its rules or declarations; empty if these do not have lines of their own.
        column: the indentation of the entries.
    """

    above: str
    own: str
    opening: str = ""
    entries: Mapping[str, EntryLines] = field(default_factory=dict)
    column: int = 2


@dataclass(frozen=True, slots=True)
class PolicyLines:
    """A policy file in lines.

    Attributes:
        path: the file, for messages.
        content: its content, as for `load_policies(data=…)`.
        head, tail: the lines before the first key and after the last one.
        sections: the lines of each key at the top.
    """

    path: Path
    content: Mapping[str, Any]
    head: str
    sections: Mapping[str, SectionLines]
    tail: str

    @property
    def rules(self) -> dict[str, dict[str, Any]]:
        """The policies by their ids, as in the file."""
        return {one["id"]: one for one in self.content.get("policies", ())}

    @property
    def drafts(self) -> tuple[RuleDraft, ...]:
        """The policies without quotes and cases, which the file does not have."""
        return tuple(
            RuleDraft(name, {key: value for key, value in one.items() if key != "id"}, {})
            for name, one in self.rules.items()
        )


def read_policy_lines(path: Path) -> PolicyLines:
    """Reads a policy file.

    Raises:
        InputError: the file cannot be read.
        ContentError: it is not a policy file, or its keys and policies do not have lines of their own.
    """
    read_single_file(path)  # for the errors of its content
    data = path.read_bytes()
    root = parse(data, path, None)
    assert root is not None
    return _Slicer(root, [one for one in _LINE.findall(data.decode()) if one]).policy()


class _Slicer:
    def __init__(self, root: SourceNode, lines: Sequence[str]) -> None:
        self._root, self._lines = root, lines

    def policy(self) -> PolicyLines:
        root = self._root
        first = {name: one.key_line - 1 for name, one in root.fields.items()}
        for name, line in first.items():
            if not self._begins(line, name, 0):
                raise self._refused(line, f"the key {name!r} does not begin a line")
        for name, one in root.fields["counters"].fields.items() if "counters" in root.fields else ():
            if not {*one.fields} <= {*COUNTER.keys}:  # YAML split its pattern at commas
                raise one.error(f"the pattern of the counter {name!r} has commas between braces; expected it in quotes")
        ends = [*(self._above(line, 0) for line in first.values()), self._above(len(self._lines), 0)]
        sections = {
            name: self._section(name, root.fields[name], *pair)
            for name, pair in zip(first, pairwise(ends), strict=True)
        }
        head, tail = self._text(0, ends[0]), self._text(ends[-1], len(self._lines))
        return PolicyLines(root.path, root.plain, head, sections, tail)

    def _section(self, name: str, node: SourceNode, above: int, end: int) -> SectionLines:
        start = node.key_line - 1
        text = self._text(above, start), self._text(start, end)
        if name == "policies":
            places = {str(one.fields["id"].plain): self._item(one) for one in node.items if "id" in one.fields}
        elif name in DECLARATIONS:
            places = dict(self._keys(node))
        else:
            places = {}
        columns = {column for _, column in places.values()}
        if len(columns) != 1:
            return SectionLines(*text)
        column = columns.pop()
        lines = [line for line, _ in places.values()]
        starts = [self._above(line, column) for line in lines]
        bounds = zip(places, starts, lines, [*starts[1:], end], strict=True)
        entries = {one: EntryLines(self._text(a, b), self._text(b, c)) for one, a, b, c in bounds}
        return SectionLines(*text, self._text(start, starts[0]), entries, column)

    def _item(self, node: SourceNode) -> tuple[int, int]:
        """The first line of a policy, and the column of its dash."""
        found = _ITEM.match(self._lines[node.line - 1])
        if found is None:
            raise self._refused(node.line - 1, "the policy does not begin a line with '- '")
        return node.line - 1, len(found[1])

    def _keys(self, node: SourceNode) -> Iterator[tuple[str, tuple[int, int]]]:
        """The names of a mapping that begin a line, with their line and column; nothing if one does not."""
        places = {name: one.key_line - 1 for name, one in node.fields.items()}
        columns = {name: _indentation(self._lines[line]) for name, line in places.items()}
        apart = len({node.key_line - 1, *places.values()}) == len(places) + 1
        is_block = _OPENING.search(self._lines[node.key_line - 1])
        if apart and is_block and all(self._begins(line, name, columns[name]) for name, line in places.items()):
            yield from ((name, (line, columns[name])) for name, line in places.items())

    def _begins(self, line: int, key: str, column: int) -> bool:
        text = self._lines[line]
        return _indentation(text) == column and text[column:].startswith((key, f'"{key}"', f"'{key}'"))

    def _above(self, line: int, column: int) -> int:
        """The first of the empty lines and comments above a line. Deeper comments belong to what is before them."""
        while line and _is_comment(self._lines[line - 1], column):
            line -= 1
        return line

    def _text(self, start: int, end: int) -> str:
        return "".join(self._lines[start:end])

    def _refused(self, line: int, problem: str) -> ContentError:
        return ContentError(f"{problem}, so it cannot be kept as it stands; {_EXPECTED}", self._root.path, line + 1)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _is_comment(line: str, column: int) -> bool:
    return not line.strip() or (line.lstrip(" ").startswith("#") and _indentation(line) <= column)
