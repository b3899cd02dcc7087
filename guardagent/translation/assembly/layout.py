"""Writes the content of a policy file as YAML that people read and edit: with the quoted words above each rule.

Keys and rules that an earlier file has with the same content are written as they stand there. For this, the lines of
that file are sliced at its keys and rules.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from guardagent._terminal import printable
from guardagent.errors import ContentError
from guardagent.policy.file.policy_file import read_single_file
from guardagent.policy.file.rule_keys import COUNTER
from guardagent.policy.file.source_tree import SourceNode
from guardagent.policy.file.yaml_reader import parse
from guardagent.policy.language.values import duration_of
from guardagent.translation.drafts import DECLARATIONS, RuleDraft

# --- lines of an earlier file

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
    """A policy file in lines; without content, there is no file.

    Attributes:
        path: the file, for messages.
        content: its content, as for `load_policies(data=…)`.
        head, tail: the lines before the first key and after the last one.
        sections: the lines of each key at the top.
    """

    path: Path = Path("policies.yaml")
    content: Mapping[str, Any] = field(default_factory=dict)
    head: str = ""
    sections: Mapping[str, SectionLines] = field(default_factory=dict)
    tail: str = ""

    @property
    def rules(self) -> dict[str, dict[str, Any]]:
        """The policies by their ids, as in the file."""
        return {policy["id"]: policy for policy in self.content.get("policies", ())}

    @property
    def drafts(self) -> tuple[RuleDraft, ...]:
        """The policies without quotes and cases, which the file does not have."""
        return tuple(
            RuleDraft(name, {key: value for key, value in rule.items() if key != "id"}, {})
            for name, rule in self.rules.items()
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
    return _Slicer(root, [match for match in _LINE.findall(data.decode()) if match]).policy()


class _Slicer:
    def __init__(self, root: SourceNode, lines: Sequence[str]) -> None:
        self._root, self._lines = root, lines

    def policy(self) -> PolicyLines:
        root = self._root
        first = {name: field.key_line - 1 for name, field in root.fields.items()}
        for name, line in first.items():
            if not self._begins(line, name, 0):
                raise self._refused(line, f"the key {name!r} does not begin a line")
        for name, counter_field in root.fields["counters"].fields.items() if "counters" in root.fields else ():
            if not {*counter_field.fields} <= {*COUNTER.keys}:  # YAML split its pattern at commas
                raise counter_field.error(
                    f"the pattern of the counter {name!r} has commas between braces; expected it in quotes"
                )
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
            places = {str(item.fields["id"].plain): self._item(item) for item in node.items if "id" in item.fields}
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
        entries = {entry_name: EntryLines(self._text(a, b), self._text(b, c)) for entry_name, a, b, c in bounds}
        return SectionLines(*text, self._text(start, starts[0]), entries, column)

    def _item(self, node: SourceNode) -> tuple[int, int]:
        """The first line of a policy, and the column of its dash."""
        match = _ITEM.match(self._lines[node.line - 1])
        if match is None:
            raise self._refused(node.line - 1, "the policy does not begin a line with '- '")
        return node.line - 1, len(match[1])

    def _keys(self, node: SourceNode) -> Iterator[tuple[str, tuple[int, int]]]:
        """The names of a mapping that begin a line, with their line and column; nothing if one does not."""
        places = {name: field.key_line - 1 for name, field in node.fields.items()}
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


# --- the file

WIDTH = 100
QUOTE = "#>"
_ABOUT = f"Lines that begin with {QUOTE} quote the document; 'guardagent translate' writes them anew."


def policy_text(content: Mapping[str, Any], rules: Sequence[RuleDraft], title: str, previous: PolicyLines) -> str:
    """Returns the text of a policy file.

    Args:
        content: the keys of the file.
        rules: the rules of `content`, with their quotes.
        title: the first line of the file, as a comment.
        previous: the file that this one replaces.

    Raises:
        ContentError: comments of the earlier file would be lost.
    """
    head = previous.head if previous.content else _comment(title, "#") + _comment(_ABOUT, "#")
    sections = [
        _policies(content[key], rules, previous) if key == "policies" else _section(key, content[key], previous)
        for key in _ordered(content, previous.sections)
    ]
    return "".join(map(_ended, [head, *sections, previous.tail]))


def same_value(first: Any, second: Any) -> bool:
    """Whether two values of a policy file are equal; `1` and `true` are not."""
    return json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def _ordered(content: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[str]:
    """The keys in their old order, and new ones before the policies."""
    new = [key for key in content if key not in old and key != "policies"]
    for key in old:
        if key == "policies":
            yield from new
        if key in content:
            yield key
    if "policies" not in old:
        yield from (*new, "policies")


def _section(key: str, value: Any, previous: PolicyLines) -> str:
    lines = previous.sections.get(key)
    if lines is None:
        return dumped({key: value})
    old = previous.content[key]
    if same_value(old, value):
        return lines.above + lines.own
    if not lines.entries and "#" in lines.own:
        raise ContentError(
            f"{key!r} has to change and has a comment or '#' beside its value; expected comments above it only",
            previous.path,
        )
    if not lines.entries:
        return lines.above + dumped({key: value})
    names = [*(name for name in old if name in value), *(name for name in value if name not in old)]
    kept = {name: lines.entries[name] for name in names if name in old and same_value(old[name], value[name])}
    entries = (_entry(lines, {name: value[name]}, kept.get(name)) for name in names)
    return "".join([lines.above, lines.opening, *entries])


def _policies(sources: Sequence[Mapping[str, Any]], rules: Sequence[RuleDraft], previous: PolicyLines) -> str:
    lines = previous.sections.get("policies") or SectionLines("", "", "policies:\n")
    old = previous.rules
    lines_ = [lines.above, lines.opening]
    for at, (source, rule) in enumerate(zip(sources, rules, strict=True)):
        kept = lines.entries.get(rule.id) if same_value(old.get(rule.id), source) else None
        quotes = textwrap.indent("".join(_quotes(rule)), " " * lines.column)
        above = _without_quotes(kept.above) if kept else "\n" * bool(at)
        lines_ += [above, quotes, _entry(lines, [source], kept)]
    return "".join(lines_)


def _entry(lines: SectionLines, value: Any, kept: EntryLines | None) -> str:
    if kept is not None:
        return _ended(kept.own if isinstance(value, list) else kept.above + kept.own)
    return textwrap.indent(dumped(value), " " * lines.column)


def _ended(text: str) -> str:
    return text if not text or text[-1] in BREAKS else f"{text}\n"


# --- comments


def _quotes(rule: RuleDraft) -> Iterator[str]:
    for number, words in sorted(rule.quotes.items()):
        yield from (_comment(f'{number}: "{line}"', QUOTE) for line in words.splitlines())


def _without_quotes(above: str) -> str:
    return "".join(line for line in above.splitlines(keepends=True) if not line.lstrip().startswith(QUOTE))


def _comment(text: str, mark: str) -> str:
    """A text as comment lines. It cannot end the comment: it has no line breaks and no invisible characters."""
    lines = textwrap.wrap(printable(" ".join(text.split())), WIDTH)
    return "".join(f"{mark} {'    ' if at and mark == QUOTE else ''}{line}\n" for at, line in enumerate(lines))


# --- values


class PolicyDumper(yaml.SafeDumper):
    """Writes a policy file as people do."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, _: Any) -> bool:  # the strict reader has none
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    if not text.replace("\n", "").isprintable() or text.endswith("\n\n"):  # PyYAML ends a file after such a block
        return '"'
    if "\n" in text:
        return "|"
    if duration_of(text) is not None or _is_number(text):  # plain, other readers take it for something else
        return "'"
    return ">" if len(text) > WIDTH - 10 and " " in text else None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _list(dumper: yaml.SafeDumper, items: list[Any]) -> yaml.Node:
    """Names stand beside each other, formulas below each other."""
    names = all(not isinstance(item, list | dict) and not re.search(r"\s|.{60}", str(item)) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=names)


PolicyDumper.add_representer(str, _text)
PolicyDumper.add_representer(list, _list)


def dumped(value: Any, dumper: type[PolicyDumper] = PolicyDumper, width: int = WIDTH) -> str:
    """Returns a value as the YAML of a policy file."""
    text = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=width, default_flow_style=False)
    assert isinstance(text, str)
    return re.sub(
        r"[^\n]",
        lambda character_match: character_match[0] if character_match[0].isprintable() else _escape(character_match[0]),
        text,
    )


def _escape(sign: str) -> str:
    """The escape of a character that is invisible. Such strings are in double quotes."""
    return f"\\U{ord(sign):08X}" if ord(sign) > 0xFFFF else f"\\u{ord(sign):04X}"
