"""Annotations of a tool's arguments that already tell that no call of the tool can be judged."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, get_args, get_origin, get_type_hints

from guardagent.adapters.langgraph.plain import UNSHOWN
from guardagent.errors import InputError

_READ_ONCE = (Iterable, Iterator, Generator, AsyncIterable, AsyncIterator, Callable)
"""A check that looked into one would take it from the tool."""


def refuse_unshown(tool: str, annotations: Mapping[str, Any]) -> None:
    """Refuses arguments of types whose values nobody can be shown: secrets, and what can be read once.

    Raises:
        InputError: names the argument.
    """
    for name, annotation in annotations.items():
        if (kind := _unshown(annotation, set())) is not None:
            shown = getattr(kind, "__name__", kind)
            raise InputError(f"the arguments of {tool}: {name} is declared as {shown}, {UNSHOWN}")


def _unshown(annotation: Any, seen: set[int]) -> Any:
    """The first such type within an annotation; None where there is none."""
    from pydantic import Secret, SecretBytes, SecretStr

    if id(annotation) in seen:
        return None
    seen.add(id(annotation))
    kind = get_origin(annotation) or annotation
    if kind in _READ_ONCE or (isinstance(kind, type) and issubclass(kind, Secret | SecretBytes | SecretStr)):
        return kind
    inner = (_unshown(one, seen) for one in (*get_args(annotation), *_of_fields(kind)))
    return next((one for one in inner if one is not None), None)


def _of_fields(kind: Any) -> list[Any]:
    from pydantic import BaseModel

    if not isinstance(kind, type):
        return []
    if issubclass(kind, BaseModel):
        return [one.annotation for one in kind.model_fields.values()]
    if dataclasses.is_dataclass(kind):
        try:
            return list(get_type_hints(kind).values())
        except Exception:  # noqa: BLE001 - a name that does not resolve; each call is looked at, too
            return []
    return []
