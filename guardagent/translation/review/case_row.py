"""A boundary case as three short strings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.types.verdicts import format_value

_KNOWN = ("user_confirmed", "context", "facts", "state", "principal", "now")
_LONGEST = 400


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A case.

    Attributes:
        call: the proposed call; for a trace, its end.
        before: the earlier calls, and what else is known.
        expected: the expected verdict.
    """

    call: str
    before: str
    expected: str


def case_rows(cases: Iterable[Mapping[str, Any]]) -> list[CaseRow]:
    """Returns a row for each record of `check` or `audit`."""
    return [case_row(one) for one in cases]


def case_row(record: Mapping[str, Any]) -> CaseRow:
    """Returns the row of a record, whose values may be anything."""
    is_trace = "proposed" not in record
    calls = _list(record.get("events" if is_trace else "history"))
    parts = [*(_earlier(one) for one in calls), *_known(record)]
    call = "the end of the conversation" if is_trace else _call(record["proposed"])
    return CaseRow(call, "; ".join(parts) or "nothing", _expected(record))


def _list(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else []


def _call(value: Any) -> str:
    if not isinstance(value, Mapping) or not isinstance(value.get("args", {}), Mapping):
        return format_value(value, _LONGEST)
    arguments = ", ".join(f"{name}={format_value(one)}" for name, one in value.get("args", {}).items())
    return f"{value.get('tool')}({arguments})"


def _earlier(value: Any) -> str:
    if not isinstance(value, Mapping):
        return format_value(value)
    failed = " failed" if value.get("failed") is True else ""
    output = f" → {format_value(value['output'])}" if value.get("output") is not None else ""
    return f"{_call(value)}{failed}{output}"


def _known(record: Mapping[str, Any]) -> Iterator[str]:
    for name in _KNOWN:
        value = record.get(name)
        if isinstance(value, Mapping) and name not in ("state", "principal"):
            yield from (f"{key}: {format_value(one)}" for key, one in value.items())
        elif value is not None:
            yield f"{name}: {format_value(value, _LONGEST)}"


def _expected(record: Mapping[str, Any]) -> str:
    label, rules = record.get("label"), record.get("rules")
    if type(label) is not int or label not in (0, 1):
        return "missing"
    is_unknown = label == 1 and rules is not None and not _list(rules)
    return "denied: unknown" if is_unknown else ("allowed", "denied")[label]
