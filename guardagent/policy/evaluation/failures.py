"""Detects failed calls by their output: `failed_output` is matched against each part of it separately."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from guardagent.types import thaw

_PLAIN = re.compile(r"""\^?[A-Za-z0-9_ :,'"!=/@#%&;<>~-]+""")
_GROUPED = re.compile(r"(\^?)\(([^()]*)\)")


def is_failure(pattern: Any, *outputs: Any) -> bool:
    """Whether a compiled pattern matches any string in the output of a tool. None matches nothing."""
    if pattern is None:
        return False
    if len(outputs) == 1 and type(outputs[0]) is str:  # the common case
        return _matches(pattern, outputs[0])
    return any(_matches(pattern, text) for output in outputs if output is not None for text in _strings(output))


def _matches(pattern: Any, text: str) -> bool:
    literals = _literals(pattern)
    if literals is not None and text.isascii():  # twenty times as fast as the search
        prefixes, parts = literals
        return text.startswith(prefixes) or (bool(parts) and any(part in text for part in parts))
    try:
        return bool(pattern.search(text))
    except UnicodeEncodeError:  # RE2 rejects lone surrogates
        return bool(pattern.search(text.encode("utf-8", "backslashreplace").decode()))


class _Literals(NamedTuple):
    """The alternatives of a pattern without operators: with and without `^` before them."""

    prefixes: tuple[str, ...]
    parts: tuple[str, ...]


@lru_cache(64)
def _literals(pattern: Any) -> _Literals | None:
    """The alternatives of a pattern such as `^Error|not found` or `^(Error|Failed)`; None for any other pattern."""
    text = pattern.pattern
    if not isinstance(text, str):
        return None
    grouped = _GROUPED.fullmatch(text)
    start, inner = grouped.groups() if grouped is not None else ("", text)
    found = [start + one for one in inner.split("|")]
    if not all(map(_PLAIN.fullmatch, found)):
        return None
    prefixes = tuple(one.removeprefix("^") for one in found if one.startswith("^"))
    return _Literals(prefixes, tuple(one for one in found if not one.startswith("^")))


def _strings(output: Any) -> Iterator[str]:
    """Yields a string output itself; otherwise the output as JSON and the strings of its blocks."""
    yield from _block_strings(output)
    parts = _fields(output)
    content = output if isinstance(output, list | tuple) else parts.get("content")
    if isinstance(content, list | tuple):
        for block in content:
            yield from _block_strings(block)
    for name in ("structuredContent", "structured_content"):
        if parts.get(name) is not None:
            yield from _block_strings(parts[name])


def _block_strings(block: Any) -> Iterator[str]:
    """Yields a block as JSON, and each string in it."""
    if isinstance(block, str):
        yield block
        return
    yield json.dumps(thaw(block), ensure_ascii=False, default=str)
    fields = _fields(block)
    for value in (*fields.values(), *_fields(fields.get("resource")).values()):
        if isinstance(value, str):
            yield value


def _fields(value: Any) -> Mapping[str, Any]:
    """The fields of a mapping or an object. Runs no code of the object."""
    if isinstance(value, Mapping):
        return value
    held = getattr(value, "__dict__", None)
    return held if isinstance(held, dict) else {}
