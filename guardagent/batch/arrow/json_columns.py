"""Reads the values of JSON strings in columns, exactly as the strict parser reads them.

msgspec accepts only JSON that the strict parser accepts, with the same values, but allows a key twice. So the number of
members that it found has to be the number of colons that can stand behind a key. Otherwise the strict parser reads the
value again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from guardagent._support import json_values
from guardagent.batch.acquittal.checks import Bools, Ints
from guardagent.policy.evaluation.call_outcomes import is_failure, literals_of
from guardagent.types import EMPTY

_MAX_JOINED = 2**30
LEVELS = 100  # of a value that a session certainly can read
_QUOTE, _COLON, _BACKSLASH, _SPACES = 34, 58, 92, np.frombuffer(b" \t\n\r", np.uint8)


@lru_cache(1)
def _decoders() -> tuple[Any, Any, Any]:
    import msgspec

    return msgspec.json.Decoder(), msgspec.json.Decoder(dict[str, Any]), msgspec.json.Decoder(str)


def exact_value(text: str) -> Any:
    """The value of a JSON string, as a session reads it.

    Raises:
        ValueError: it is not JSON, is ambiguous, or is nested too deep for a session.
    """
    import msgspec

    try:
        value = _decoders()[0].decode(text)
        if type(value) not in (dict, list) or text.count(":") == members_of(value):
            return value
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        pass  # the strict parser decides
    value = json_values.plain_value(text)
    members_of(value)
    return value


def members_of(value: Any, levels: int = LEVELS) -> int:
    """The number of members in all objects of a value.

    Raises:
        ValueError: it is nested too deep for a session.
    """
    if type(value) not in (dict, list):
        return 0
    if not levels:
        raise ValueError("it is nested too deep")
    if type(value) is list:
        return sum(members_of(item, levels - 1) for item in value)
    return len(value) + sum(members_of(item, levels - 1) for item in value.values() if type(item) in (dict, list))


def values_of(column: pa.Array) -> tuple[list[Any], Bools]:
    """(the values of a column of JSON strings without nulls, the rows without a value).

    A value is as a session reads it; one that is not JSON, or is ambiguous or nested too deep, is None.
    """
    bad = np.zeros(len(column), np.bool_)
    texts = pc.and_(pc.starts_with(column, '"'), pc.ends_with(column, '"'))
    strings = _lines(column.filter(texts), _decoders()[2])
    values: list[Any] = [None] * len(column)
    rest = np.arange(len(column))
    if strings:
        is_text = texts.to_numpy(zero_copy_only=False)
        for row, value in zip(np.flatnonzero(is_text).tolist(), strings, strict=True):
            values[row] = value
        rest = np.flatnonzero(~is_text)
    for row, text in zip(rest.tolist(), column.take(pa.array(rest)).to_pylist(), strict=True):
        try:
            values[row] = exact_value(text)
        except ValueError:
            bad[row] = True
    return values, bad


def _lines(column: pa.Array, decoder: Any) -> list[Any]:
    """The values of JSON strings of which none can begin a value that the next one continues; empty if one is wrong."""
    import msgspec

    if not len(column) or column.nbytes > _MAX_JOINED:
        return []
    texts = pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column.cast(pa.string()))
    try:
        values: list[Any] = decoder.decode_lines(pc.binary_join(texts, "\n")[0].as_buffer())
    except (msgspec.MsgspecError, RecursionError):
        return []
    return values if len(values) == len(column) else []


def objects_of(column: pa.Array) -> tuple[list[Any], Bools]:
    """(the objects of a column of JSON strings without nulls, the rows whose value is not an object)."""
    count, bad = len(column), np.zeros(len(column), np.bool_)
    odd = np.ones(count, np.bool_)
    is_shaped = pc.all(pc.and_(pc.starts_with(column, "{"), pc.ends_with(column, "}"))).as_py()
    values = _lines(column, _decoders()[1]) if is_shaped else []
    if len(values) == count:
        sizes = np.fromiter(map(len, values), np.int64, count)
        odd = possible_members(column) != sizes
        if pc.any(pc.match_substring(column, "[")).as_py():
            odd |= pc.count_substring(column, "[").to_numpy(zero_copy_only=False) > LEVELS
    else:
        values = [EMPTY] * count
    rows = np.flatnonzero(odd)
    for row, text in zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True):
        try:
            value = exact_value(text)
        except ValueError:
            value, bad[row] = None, True
        bad[row] |= value is not None and type(value) is not dict
        values[row] = EMPTY if value is None or bad[row] else value
    return values, bad


def possible_members(column: pa.Array) -> Ints:
    """The number of possible members in each of some JSON objects.

    A possible member is a colon that can stand behind a key: after white space, or after the quote that ends the key.
    Such a quote does not come after just one backslash. Each member has one, and a string may contain others.
    """
    offsets = np.frombuffer(column.buffers()[1], np.int64 if pa.types.is_large_string(column.type) else np.int32)
    offsets = offsets[column.offset : column.offset + len(column) + 1].astype(np.int64)
    text = np.frombuffer(column.buffers()[2], np.uint8)[int(offsets[0]) : int(offsets[-1])]
    colons = np.flatnonzero(text == _COLON)
    before = text[colons - 1]
    escaped = (text[colons - 2] == _BACKSLASH) & (text[colons - 3] != _BACKSLASH)
    possible = colons[(before == _QUOTE) & ~escaped | np.isin(before, _SPACES)]
    members: Ints = np.diff(np.searchsorted(possible, offsets[1:] - offsets[0]), prepend=0)
    return members


def failures_of(pattern: Any, outputs: Sequence[Any]) -> Bools:
    """Whether a compiled pattern matches in each of some outputs."""
    failures = np.zeros(len(outputs), np.bool_)
    if pattern is None:
        return failures
    literals, kinds = literals_of(pattern), set(map(type, outputs))
    if literals is None or kinds - {str, type(None)}:
        known = {output: is_failure(pattern, output) for output in {value for value in outputs if type(value) is str}}
        for row, output in enumerate(outputs):
            failures[row] = known[output] if type(output) is str else is_failure(pattern, output)
        return failures
    column = pa.array(outputs, pa.string())
    for match, texts in ((pc.starts_with, literals.prefixes), (pc.match_substring, literals.parts)):
        for text in texts:
            failures |= pc.fill_null(match(column, text), False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value
    return failures
