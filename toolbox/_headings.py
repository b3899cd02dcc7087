"""Lines of the form `name: value`: spellings of a heading, and the end of the text under it."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence

from ._plain import plain

# All characters that are a colon or an equals sign, or contain one after NFKC normalization.
SIGN = re.compile("[:=\u207c\u208c\u2236\u2a74-\u2a76\ua789\ufe13\ufe55\ufe66\uff1a\uff1d]")
_WORD = re.compile(r"[^\W_]+")
_MARKS = ("**", "__", "*", "_", "`")
_BLANK = re.compile(r"\s*(?:[-=*_~#]{3,}\s*)?")
_HEADING = re.compile(
    r"(?P<indent>\s*)(?P<mark>[-*+•]\s+|(?:>\s*)+|#{1,6}\s+|\(?\d{1,3}[.)]\s+)?(?P<bold>\*\*|__)?"
    r"(?P<name>[^\W\d_][\w'/&-]*(?:[ \t][\w'/&-]+){0,4})(?:\*\*|__)?[ \t]*:(?:\*\*|__)?(?=\s|$)"
)
LIST = "-"
"""The mark of an item of a list, numbered or not."""

_STATEMENTS = frozenset(keyword.kwlist) | {"case", "match"}
_FENCE = re.compile(r"(`{3,}|~{3,})(.*)")
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
_COMMENTS = (("/*", "*/"), ("<!--", "-->"))


def name_of(text: str) -> str:
    """The words of a name in lower case, without marks."""
    return " ".join(_WORD.findall(plain(text).casefold()))


def is_named(line: tuple[str, str] | None, wanted: str) -> bool:
    """Whether a line split by `split_line` has a name, with or without a list number before it."""
    if line is None:
        return False
    return line[0] == wanted or (line[0].endswith(f" {wanted}") and line[0].removesuffix(wanted).strip().isdecimal())


def split_line(line: str) -> tuple[str, str] | None:
    """(name, rest) of a line with a colon or equals sign, the rest unchanged. None without such a sign."""
    sign = SIGN.search(line)
    if sign is None:
        return None
    return name_of(line[: sign.start()]), line[sign.end() :]


def unmarked(rest: str, line: str) -> str:
    """The rest of a line without the closing emphasis mark of its name: `**Name:** value`."""
    before, value = line[: -len(rest) or None], rest.lstrip()
    mark = next((mark for mark in _MARKS if value.startswith(mark) and before.count(mark) % 2), "")
    return value.removeprefix(mark) if mark else rest


def goes_on(value: str, following: Sequence[str]) -> bool:
    """Whether the value of a line may continue in the following lines.

    It does not at the end of the text, or if the next line with content is a heading.
    """
    line = next((line for line in map(plain, following) if not _BLANK.fullmatch(line)), None)
    return line is not None and (style_of(line) is None or _unfinished(value))


def style_of(line: str) -> tuple[int, str, str] | None:
    """(indentation, mark, emphasis) of a line that is clearly a heading; None for any other line.

    A heading has at most five words, then a colon and a space or nothing. Python statements such as `else:` are not.
    """
    match = _HEADING.match(plain(line))
    if match is None or match["name"].split()[0] in _STATEMENTS:
        return None
    mark = (match["mark"] or "").strip()
    return len(match["indent"].expandtabs()), mark if mark[:1] in ("", "#", ">") else LIST, match["bold"] or ""


def outside_code(lines: Sequence[str], before: str = "") -> Iterator[int]:
    """The indices of lines outside of fenced code blocks; a block may begin before the first line.

    Raises:
        ValueError: a code block does not end.
    """
    fence = _opened(before)
    for place, line in enumerate(lines):
        if fence:
            fence = "" if _closes(line, fence) else fence
        elif not (fence := _opened(line)):
            yield place
    if fence:
        raise ValueError("a code block does not end")


def without_fence(text: str) -> str:
    """The code of a text that is one fenced code block; any other text unchanged."""
    first, *lines = text.strip().splitlines(keepends=True) or [""]
    fence = _opened(first)
    closing = [place for place, line in enumerate(lines) if fence and _closes(line, fence)]
    return "".join(lines[:-1]) if closing[:1] == [len(lines) - 1] else text


def _opened(line: str) -> str:
    """The mark that opens a code block; empty if the line opens none."""
    match = _FENCE.fullmatch(plain(line).strip())
    return match[1] if match and match[1] not in match[2] else ""


def _closes(line: str, fence: str) -> bool:
    mark = plain(line).strip()
    return len(mark) >= len(fence) and set(mark) == {fence[0]}


def _unfinished(value: str) -> bool:
    return (
        value.endswith((",", "\\"))
        or any(value.count(left) > value.count(right) for left, right in _BRACKETS)
        or any(value.rfind(left) > value.rfind(right) for left, right in _COMMENTS)
        or any(value.count(quotes) % 2 for quotes in ("```", '"""', "'''"))
    )
