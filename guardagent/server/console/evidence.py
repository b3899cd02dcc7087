"""The evidence for a reviewer: what the host knows, what earlier calls returned, and where a call differs from it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent.types import call_text

MAX_OPEN = 2048  # bytes of evidence that is shown unfolded
_MOST = 3  # values named for one argument


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """The facts of the host, or the output of a call.

    Attributes:
        title: where it comes from.
        value: the facts or the output; JSON in a string is read.
        args: the arguments of the call.
        fields: the plain values in it by their paths, such as `items[0].price`.
    """

    title: str
    value: Any
    args: Mapping[str, Any]
    fields: Mapping[str, Any]

    @property
    def is_short(self) -> bool:
        """Whether it is shown unfolded."""
        return len(json.dumps(self.value, default=str).encode()) < MAX_OPEN


def evidence_of(facts: Any, calls: Iterable[Mapping[str, Any]]) -> list[EvidenceItem]:
    """Returns the evidence for a call, the newest first.

    Args:
        facts: the host's facts about the call; None without any.
        calls: the earlier calls of the session, in order.
    """
    outputs = [
        _item(f"{call['id']}: {call_text(call['tool'], call['args'])}", call["output"], call["args"])
        for call in calls
        if call["output"] is not None
    ]
    return ([_item("Facts from the host", facts, {})] if facts else []) + outputs[::-1]


def _item(title: str, value: Any, args: Mapping[str, Any]) -> EvidenceItem:
    if isinstance(value, str):
        with contextlib.suppress(ValueError):  # plain text
            value = json.loads(value)
    return EvidenceItem(title, value, args, dict(_fields(value)))


Differences = dict[str, dict[str, dict[str, Any]]]
"""Values in the evidence by argument, title and path."""


def differences(args: Mapping[str, Any], evidence: Sequence[EvidenceItem]) -> Differences:
    """Returns the values in the evidence that differ from arguments.

    A field with the name of an argument differs if none with this name has its value. A number that is nowhere in the
    evidence differs from the numbers in the facts and in the outputs of calls that share a value with the call.
    """
    compared = {name: _differing(name, value, args, evidence) for name, value in _fields(args)}
    return {name: titles for name, titles in compared.items() if titles}


def _differing(
    name: str, value: Any, args: Mapping[str, Any], evidence: Sequence[EvidenceItem]
) -> dict[str, dict[str, Any]]:
    fields = [(item, path, field) for item in evidence for path, field in item.fields.items()]
    alike = [(item, path, field) for item, path, field in fields if _last(path) == _last(name)]
    if any(field == value or str(field) == str(value) for _, _, field in alike or fields):
        return {}
    if not alike and _is_number(value):
        others = {str(other) for path, other in _fields(args) if path != name}
        related = [item for item in evidence if not item.args or others & {*map(str, item.args.values())}]
        alike = [(item, path, field) for item, path, field in fields if item in related and _is_number(field)]
    titles: dict[str, dict[str, Any]] = {}
    for item, path, field in alike[:_MOST]:
        titles.setdefault(item.title, {})[path] = field
    return titles


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _fields(part, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        for at, part in enumerate(value):
            yield from _fields(part, f"{path}[{at}]")
    elif value is not None:
        yield path, value


def _last(path: str) -> str:
    return path.rpartition(".")[2].partition("[")[0].casefold()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
