"""Detects failed calls by their output: `failed_output` is matched against each part of it separately."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from guardagent.types import thaw


def is_failure(pattern: Any, *outputs: Any) -> bool:
    """Whether a compiled pattern matches any string in the output of a tool. None matches nothing."""
    return pattern is not None and any(
        _matches(pattern, text) for output in outputs if output is not None for text in _strings(output)
    )


def _matches(pattern: Any, text: str) -> bool:
    try:
        return bool(pattern.search(text))
    except UnicodeEncodeError:  # RE2 rejects lone surrogates
        return bool(pattern.search(text.encode("utf-8", "backslashreplace").decode()))


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
