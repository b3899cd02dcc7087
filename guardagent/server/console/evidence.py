"""The evidence for a reviewer: what the host knows, what earlier calls returned, and where a call differs from it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent.types import call_text

_MOST = 3  # values that are marked for one argument


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """The facts of the host, or the output of a call with its arguments."""

    title: str
    value: Any
    args: Mapping[str, Any]

    @property
    def fields(self) -> dict[str, Any]:
        """The plain values in it by their paths, such as `items[0].price`."""
        return dict(_fields(self.value))


def evidence_of(facts: Any, calls: Sequence[Mapping[str, Any]]) -> list[EvidenceItem]:
    """Returns the facts of the host, then the outputs of the earlier calls of the session, the newest first."""
    evidence = [EvidenceItem("Facts from the host", facts, {})] if facts else []
    for call in reversed(calls):
        output, args = call["output"], call["args"]
        if isinstance(output, str):
            with contextlib.suppress(ValueError):  # plain text
                output = json.loads(output)
        if output is not None:
            evidence.append(EvidenceItem(f"{call['id']}: {call_text(call['tool'], args)}", output, args))
    return evidence


def differences(args: Mapping[str, Any], evidence: Sequence[EvidenceItem]) -> dict[str, list[tuple[str, str, Any]]]:
    """Returns the titles, paths and values in the evidence that differ from an argument, by its path.

    A field with the name of an argument differs if none with this name has its value. A number that is nowhere in the
    evidence differs from the numbers in the facts and in the outputs of calls that share a value with the call; those
    in lists count only if there are few.
    """
    own = dict(_fields(args))
    compared = {name: _differing(name, own, evidence) for name in own}
    return {name: fields[:_MOST] for name, fields in compared.items() if fields}


def _differing(name: str, own: Mapping[str, Any], evidence: Sequence[EvidenceItem]) -> list[tuple[str, str, Any]]:
    value = own[name]
    fields = [(item.title, *field) for item in evidence for field in item.fields.items()]
    alike = [field for field in fields if _last(field[1]) == _last(name)]
    if any(other == value or str(other) == str(value) for _, _, other in alike or fields):
        return []
    if alike or type(value) not in (int, float):
        return alike
    others = {str(other) for path, other in own.items() if path != name}
    related = {item.title for item in evidence if not item.args or others & {*map(str, item.args.values())}}
    numbers = [field for field in fields if field[0] in related and type(field[2]) in (int, float)]
    return [field for field in numbers if "[" not in field[1]] or (numbers if len(numbers) <= _MOST else [])


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            yield from _fields(part, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple) and value:
        for at, part in enumerate(value):
            yield from _fields(part, f"{path}[{at}]")
    else:
        yield path, value


def _last(path: str) -> str:
    return path.rpartition(".")[2].partition("[")[0].casefold()
