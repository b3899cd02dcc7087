"""Finds the code in a log: its sections, and the possible readings of each."""

from __future__ import annotations

import ast
import contextlib
import re
import textwrap
import unicodedata
from typing import TYPE_CHECKING

from guardagent._support import syntax

from .vocabulary import ACCESSORS

if TYPE_CHECKING:
    from .sql import Interpreter

HEADER = re.compile(
    r"(?im)^[ \t]*(?:(?:(?:generated )?code|solution)[ \t]*:|(answer|knowledge|question|error)[ \t]*:[ \t]*$)"
)
TAIL = re.compile(r"(?m)^[ \t]*(?:Answer|Error|Knowledge|Question)[ \t]*:")
FENCE = re.compile(r"(?m)^[ \t]*(?:```.*|TERMINATE[ \t]*)$")
CELL = re.compile(r'"cell"\s*:\s*"((?:[^"\\]|\\.)*)"')
NAMES = "LoadDB|FilterDB|GetValue|SQLInterpreter"
LINES = 20  # the most lines of prose within code that are skipped
CALL = re.compile(rf"\b(?:{NAMES})\s*\(")
USE = re.compile(  # a use, not a mention
    rf"[=(\[{{@]\s*(?:{NAMES})\b|\bin\s+(?:{NAMES})\b|\b(?:{NAMES})\b[\s)\]'\"`]*\("
)
PROSE = re.compile(
    r"(?!(?:for|if|elif|else|while|def|class|import|from|return|try|except|with|print|answer)\b)"
    r"(?:[-*>]|\d+[.)])?\s*[^\W\d_]+(?:[ ,][\w.,;:'\u2019\"`!?%/-]+){3,}"
)
JOINED = 100_000  # the most characters of code across sections that are tried
ESCAPE = re.compile(r"(?s)\\(?:u([0-9a-fA-F]{4})|(.))")


def read_log(text: str, reader: Interpreter) -> None:
    """Interpret all code in a log, in order.

    Raises:
        ValueError: a text that names the agent's functions cannot be parsed as code.
    """
    sections = _sections(text)
    whole = _parse(text) if len(sections) > 1 else None
    if whole:
        reader.program([whole])
    covered = len(text) if whole else 0
    tried = 0
    for place, (start, end, is_code) in enumerate(sections):
        part = text[start:end]
        readings = _readings(part) if is_code or _names(part) else []
        for _, later, _ in sections[place + 1 :] if is_code else ():
            if readings:
                break
            # An apparent header may be a line of the code, which continues after it.
            tried += later - start
            if tried > JOINED:
                raise ValueError("too much of the code is not valid Python")
            readings = _readings(text[start:later])
            covered = max(covered, later if readings else 0)
        readings = readings or (_readings(_without_prose(part)) if is_code else [])
        hidden = not is_code and any(_hides(*reading) for reading in readings)
        mentioned = _names(part) if is_code else USE.search(_plain(part))
        if hidden or (not readings and end > covered and mentioned):
            raise ValueError("a call of the databases here cannot be parsed as code")
        reader.program([tree for _, tree in readings])


def _sections(text: str) -> list[tuple[int, int, bool]]:
    """Split a log into sections (start, end, whether it is code)."""
    headers = [*HEADER.finditer(text)]
    if not all(header[1] for header in headers):
        starts = [(0, False), *((header.end(), not header[1]) for header in headers)]
        ends = [*(header.start() for header in headers), len(text)]
        return [(start, end, is_code) for (start, is_code), end in zip(starts, ends, strict=True)]
    marks = [match.span() for match in re.finditer(r"(?m)^[ \t]*```.*$", text)]
    if not marks:
        marks = [
            span
            for match in CELL.finditer(text)
            for span in ((match.start(), match.start(1)), (match.end(1), match.end()))
        ]
    edges = [0, *(edge for span in marks for edge in span), len(text)]
    spans = zip(edges[::2], edges[1::2], strict=True)
    return [(start, end, not marks or place % 2 == 1) for place, (start, end) in enumerate(spans)]


def _readings(text: str) -> list[tuple[str, ast.Module]]:
    """Return all readings of a section: line breaks, or also quotes, may be escaped."""
    texts = [text]
    if "\\" in text:
        texts += [text.replace("\\n", "\n").replace("\\t", "\t"), ESCAPE.sub(_unescape, text)]
    tidy = [textwrap.dedent(one).strip() for each in texts for one in (each, FENCE.sub("", each))]
    readings = [(one, tree) for one in dict.fromkeys(tidy) if (tree := _parse(one))]
    cut = None if readings else TAIL.search(text)
    return _readings(text[: cut.start()]) if cut and not _names(text[cut.start() :]) else readings


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else {"n": "\n", "t": "\t", "r": "\r"}.get(match[2], match[2])


def _plain(text: str) -> str:
    """Normalize names as Python does."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text)


def _names(text: str) -> bool:
    return any(name in _plain(text) for name in ACCESSORS)


def _parse(text: str) -> ast.Module | None:
    with contextlib.suppress(SyntaxError, ValueError):
        return syntax.parse(text)
    return None


def _hides(text: str, tree: ast.Module) -> bool:
    """Tell whether a text has calls of the accessors that are not calls in its tree."""
    funcs = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = sum(getattr(func, "id", getattr(func, "attr", "")) in ACCESSORS for func in funcs)
    return calls != len(CALL.findall(_plain(text)))


def _without_prose(text: str) -> str:
    """Remove lines of prose that are syntax errors."""
    lines = FENCE.sub("", text).split("\n")
    for _ in range(LINES):
        try:
            syntax.parse("\n".join(lines))
        except SyntaxError as error:
            line = lines[error.lineno - 1] if error.lineno and error.lineno <= len(lines) else ""
            if not PROSE.fullmatch(line) or USE.search(_plain(line)):
                break
            lines[(error.lineno or 1) - 1] = ""
        except ValueError:
            break
        else:
            return "\n".join(lines)
    return text
