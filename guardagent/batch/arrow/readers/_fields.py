"""Typed access to the fields of a record, and the columns that all formats fill alike.

Each function raises an InputError that says what was expected.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from guardagent._support import json_values
from guardagent.batch.arrow.readers._spans import Row, is_text, kind
from guardagent.errors import InputError
from guardagent.policy.language.answer_step import ANSWER, answer_arguments

_CUT = re.compile(r"[\[(<][^\[(<]{0,40}\btruncated[\])>]\s*$", re.IGNORECASE)
_OPENINGS = re.compile(r"""\s*(\{|\[\s*["'{\[])""")


def first(record: Mapping[str, Any], *keys: str) -> Any:
    """Returns the value of the first key that has one, since some exports write `trace_id` and others `traceId`."""
    return next((record[key] for key in keys if record.get(key) not in (None, "")), None)


def text_or_none(value: Any, name: str) -> str | None:
    """Returns a string; None if it is null or empty."""
    if value is None or value == "":
        return None
    if not is_text(value):
        raise InputError(f"{name} is {kind(value)}; expected a string of Unicode characters")
    return str(value)


def tool_name(value: Any) -> str:
    """Returns the name of the called tool."""
    name = text_or_none(value, "the name of the tool")
    if name is None:
        raise InputError("a call has no name of a tool; expected one")
    if name == ANSWER:
        raise InputError(f"a tool has the name of the final answer in rules, {ANSWER!r}; rename it before the export")
    return name


def argument_text(value: Any, tool: str, remedy: str) -> str:
    """Returns the arguments of a call as JSON text: from an object, or from a string that has one.

    Args:
        value: the value of the field; null and the empty string mean that the arguments are unknown.
        tool: the name of the tool, for messages.
        remedy: how to record arguments, for messages.
    """
    if value is None or value == "":
        raise InputError(f"the arguments of the call of {tool!r} were not recorded; {remedy}")
    found = _parsed(value, f"the arguments of the call of {tool!r}")
    if type(found) is not dict:
        raise InputError(
            f"the arguments of the call of {tool!r} are {kind(found)}; expected a JSON object. They may be cut off: "
            "record them without a limit on their length"
        )
    return json_text(found, f"the arguments of the call of {tool!r}")


def output_text(value: Any, tool: str) -> str | None:
    """Returns the output of a call as JSON text, also of a string that is JSON; None if it was not recorded."""
    name = f"the output of {tool!r}"
    return None if value is None else json_text(_parsed(value, name), name)


def raw_output_text(value: Any, tool: str) -> str | None:
    """Returns the output of a call as JSON text; a string remains a string."""
    refuse_cut(value, f"the output of {tool!r}")
    return None if value is None else json_text(value, f"the output of {tool!r}")


def _parsed(value: Any, name: str) -> Any:
    """Returns the value of a string that is JSON; other values as they are."""
    refuse_cut(value, name)
    if type(value) is not str:
        return value
    try:
        return json_values.loads(value)
    except ValueError:
        closing = value.rstrip()[-1:]
        if (opening := _OPENINGS.match(value)) and closing != {"{": "}", "[": "]"}[opening[1][0]]:
            raise InputError(
                f"{name} begins like JSON and is cut off; record it without a limit on its length"
            ) from None
        return value


def refuse_cut(value: Any, name: str) -> None:
    """Rejects a value that says of itself that it is incomplete."""
    parts = [value]
    while parts:
        part = parts.pop()
        if type(part) is dict:
            parts += part.values()
            cut = part.get("truncated") is True and "preview" in part
        elif type(part) is list:
            parts, cut = parts + part, False
        else:
            cut = type(part) is str and _CUT.search(part[-60:]) is not None
        if cut:
            raise InputError(f"{name} is truncated; record it without a limit on its length")


def json_text(value: Any, name: str) -> str:
    """Returns JSON text in ASCII, so that it has no lone surrogates."""
    try:
        return json.dumps(value, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} cannot be written as JSON: {error}") from None


def instant(value: Any, name: str) -> float:
    """Returns the seconds since the epoch of an ISO 8601 string; without a zone it is in UTC."""
    if type(value) is not str:
        raise InputError(f"{name} is {kind(value)}; expected a time such as '2026-01-31T09:30:00Z'")
    try:
        moment = dt.datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, OverflowError):
        raise InputError(f"{name} is {value[:40]!r}; expected a time such as '2026-01-31T09:30:00Z'") from None


def object_at(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Returns the object at a key; an empty one if it is null."""
    value = record.get(key)
    if value is not None and type(value) is not dict:
        raise InputError(f"{key!r} is {kind(value)}; expected an object")
    return value or {}


def list_at(record: Mapping[str, Any], key: str) -> list[Any]:
    """Returns the list at a key; an empty one if it is null."""
    value = record.get(key)
    if value is not None and type(value) is not list:
        raise InputError(f"{key!r} is {kind(value)}; expected a list")
    return value or []


def answer_rows(text: Any, time: float) -> Iterator[Row]:
    """Yields the step of the final answer, unless it is empty."""
    if type(text) is str and text:
        refuse_cut(text, "the final answer")
        args = json_text(dict(answer_arguments(text)), "the final answer")
        yield {"tool": ANSWER, "args": args, "time": time, "failed": False}
