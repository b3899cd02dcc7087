"""Writes the content of a policy file as YAML that people read and edit: with the quoted words above each rule.

Keys and rules that an earlier file has with the same content are written as they stand there.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from guardagent._terminal import printable
from guardagent.errors import ContentError
from guardagent.policy.language.values import duration_of
from guardagent.translation.assembly.policy_lines import BREAKS, EntryLines, PolicyLines, SectionLines
from guardagent.translation.drafts import RuleDraft

WIDTH = 100
QUOTE = "#>"
_ABOUT = f"Lines that begin with {QUOTE} quote the document; 'guardagent translate' writes them anew."


def policy_text(
    content: Mapping[str, Any], rules: Sequence[RuleDraft], title: str, previous: PolicyLines | None
) -> str:
    """Returns the text of a policy file.

    Args:
        content: the keys of the file.
        rules: the rules of `content`, with their quotes.
        title: the first line of the file, as a comment.
        previous: the file that this one replaces.

    Raises:
        ContentError: comments of the earlier file would be lost.
    """
    head = _comment(title, "#") + _comment(_ABOUT, "#") if previous is None else previous.head
    old = {} if previous is None else previous.sections
    sections = [
        _policies(content[key], rules, previous) if key == "policies" else _section(key, content[key], previous)
        for key in _ordered(content, old)
    ]
    return "".join(map(_ended, [head, *sections, "" if previous is None else previous.tail]))


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


def _section(key: str, value: Any, previous: PolicyLines | None) -> str:
    lines = None if previous is None else previous.sections.get(key)
    if previous is None or lines is None:
        return _dumped({key: value})
    old = previous.content[key]
    if same_value(old, value):
        return lines.above + lines.own
    if not lines.entries and "#" in lines.own:
        raise ContentError(
            f"{key!r} has to change and has a comment or '#' beside its value; expected comments above it only",
            previous.path,
        )
    if not lines.entries:
        return lines.above + _dumped({key: value})
    names = [*(name for name in old if name in value), *(name for name in value if name not in old)]
    kept = {name: lines.entries[name] for name in names if name in old and same_value(old[name], value[name])}
    entries = (_entry(lines, {name: value[name]}, kept.get(name)) for name in names)
    return "".join([lines.above, lines.opening, *entries])


def _policies(sources: Sequence[Mapping[str, Any]], rules: Sequence[RuleDraft], previous: PolicyLines | None) -> str:
    lines = previous.sections.get("policies") if previous else None
    lines = lines or SectionLines("", "", "policies:\n")
    old = previous.rules if previous else {}
    found = [lines.above, lines.opening]
    for at, (source, rule) in enumerate(zip(sources, rules, strict=True)):
        kept = lines.entries.get(rule.id) if same_value(old.get(rule.id), source) else None
        quotes = textwrap.indent("".join(_quotes(rule)), " " * lines.column)
        above = _without_quotes(kept.above) if kept else "\n" * bool(at)
        found += [above, quotes, _entry(lines, [source], kept)]
    return "".join(found)


def _entry(lines: SectionLines, value: Any, kept: EntryLines | None) -> str:
    if kept is not None:
        return _ended(kept.own if isinstance(value, list) else kept.above + kept.own)
    return textwrap.indent(_dumped(value), " " * lines.column)


def _ended(text: str) -> str:
    return text if not text or text[-1] in BREAKS else f"{text}\n"


# --- comments


def _quotes(rule: RuleDraft) -> Iterator[str]:
    for number, words in sorted(rule.quotes.items()):
        yield _comment(f'{number}: "{words}"', QUOTE)


def _without_quotes(above: str) -> str:
    return "".join(one for one in above.splitlines(keepends=True) if not one.lstrip().startswith(QUOTE))


def _comment(text: str, mark: str) -> str:
    """A text as comment lines. It cannot end the comment: it has no line breaks and no invisible characters."""
    lines = textwrap.wrap(printable(" ".join(text.split())), WIDTH)
    return "".join(f"{mark} {'    ' if at and mark == QUOTE else ''}{line}\n" for at, line in enumerate(lines))


# --- values


class _Dumper(yaml.SafeDumper):
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
    names = all(not isinstance(one, list | dict) and not re.search(r"\s|.{60}", str(one)) for one in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=names)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _list)


def _dumped(value: Any) -> str:
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH, default_flow_style=False)
    assert isinstance(text, str)
    return re.sub(r"[^\n]", lambda one: one[0] if one[0].isprintable() else _escape(one[0]), text)


def _escape(sign: str) -> str:
    """The escape of a character that is invisible. Such strings are in double quotes."""
    return f"\\U{ord(sign):08X}" if ord(sign) > 0xFFFF else f"\\u{ord(sign):04X}"
