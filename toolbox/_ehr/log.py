"""Finds the code in a log: its sections, and all that each can be read as."""

from __future__ import annotations

import ast
import contextlib
import re
import textwrap
import unicodedata
import warnings
from typing import TYPE_CHECKING

from .vocabulary import ACCESSORS

if TYPE_CHECKING:
    from .sql import Reader

HEADER = re.compile(
    r"(?im)^[ \t]*(?:(?:(?:generated )?code|solution)\s*:|(answer|knowledge|question|error)\s*:[ \t]*$)"
)
TAIL = re.compile(r"(?m)^[ \t]*(?:Answer|Error|Knowledge|Question)[ \t]*:")
FENCE = re.compile(r"(?m)^[ \t]*(?:```.*|TERMINATE[ \t]*)$")
CELL = re.compile(r'"cell"\s*:\s*"((?:[^"\\]|\\.)*)"')
CALL = re.compile(r"\b(?:LoadDB|FilterDB|GetValue|SQLInterpreter)\s*\(")
ESCAPE = re.compile(r"(?s)\\(?:u([0-9a-fA-F]{4})|(.))")


def read_log(text: str, reader: Reader) -> None:
    """Has a reader interpret all the code in a log, in order.

    Raises:
        ValueError: something that names the agent's functions cannot be read as code.
    """
    sections = [(part, is_code, _readings(part) if is_code else []) for part, is_code in _sections(text)]
    # Where a section of code does not parse, its code may go on in what looks like another section.
    broken = any(is_code and not readings for _, is_code, readings in sections)
    for part, is_code, readings in sections:
        named = _names_an_accessor(part)
        # Code may also hide in the text around, such as after the answer.
        found = readings if is_code or not named else _readings(part)
        doubtful = (broken or not is_code) and any(_hides(*reading) for reading in found)
        if named and (doubtful or not found):
            raise ValueError("what calls the databases here cannot be read as code")
        reader.program([tree for _, tree in found])


def _sections(text: str) -> list[tuple[str, bool]]:
    """Cut a log into sections, and say of each whether it is code."""
    headers = [*HEADER.finditer(text)]
    if not all(header[1] for header in headers):
        ends = [header.start() for header in headers[1:]] + [len(text)]
        parts = [(text[header.end() : end], not header[1]) for header, end in zip(headers, ends, strict=True)]
        return [(text[: headers[0].start()], False), *parts]
    chunks = re.split(r"(?m)^[ \t]*```.*$", text)
    if len(chunks) == 1:
        chunks = CELL.split(text)
    return [(chunk, len(chunks) == 1 or place % 2 == 1) for place, chunk in enumerate(chunks)]


def _readings(text: str) -> list[tuple[str, ast.Module]]:
    """Return all that a section can be read as: its line ends, or all its quotes too, may be escaped."""
    texts = [text]
    if "\\" in text:
        texts += [text.replace("\\n", "\n").replace("\\t", "\t"), ESCAPE.sub(_unescape, text)]
    tidy = [textwrap.dedent(one).strip() for each in texts for one in (each, FENCE.sub("", each))]
    readings = [(one, tree) for one in dict.fromkeys(tidy) if (tree := _parse(one))]
    cut = None if readings else TAIL.search(text)
    return _readings(text[: cut.start()]) if cut and not _names_an_accessor(text[cut.start() :]) else readings


def _unescape(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else {"n": "\n", "t": "\t", "r": "\r"}.get(match[2], match[2])


def _names_an_accessor(text: str) -> bool:
    return any(name in unicodedata.normalize("NFKC", text) for name in ACCESSORS)


def _parse(text: str) -> ast.Module | None:
    with warnings.catch_warnings(), contextlib.suppress(SyntaxError, ValueError):
        warnings.simplefilter("ignore")
        return ast.parse(text)
    return None


def _hides(text: str, tree: ast.Module) -> bool:
    """Tell whether a text has calls of the accessors that are no calls in its tree."""
    funcs = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = sum(getattr(func, "id", getattr(func, "attr", "")) in ACCESSORS for func in funcs)
    return calls != len(CALL.findall(unicodedata.normalize("NFKC", text)))
