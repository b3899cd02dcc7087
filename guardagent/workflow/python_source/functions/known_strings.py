"""The strings among some values, single or in lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from guardagent.workflow.python_source.values import (
    Attribute,
    CallResult,
    Class,
    ImportedName,
    Instance,
    PartialFunction,
    Sequence,
    Values,
    exactly,
    plain_string,
)

_MORE: Any = object()


class KnownStrings(NamedTuple):
    """Strings; there are no others if `complete`."""

    known: frozenset[str]
    complete: bool

    @classmethod
    def of(cls, values: Values) -> KnownStrings:
        every = list(flat(values))
        return cls(
            frozenset(plain_string(one) for one in every if isinstance(one, str)), all(map(_is_determined, every))
        )


def flat(values: Values) -> Iterator[object]:
    """Yields all values and the elements of lists, and a marker if there can be other values."""
    for one in values.known:
        if isinstance(one, Sequence):
            for item in one.items:
                yield from flat(item)
        elif isinstance(one, list | tuple | set | frozenset):
            for item in one:
                yield from flat(exactly(item))
        else:
            yield one
    if not values.complete:
        yield _MORE


def _is_determined(one: object) -> bool:
    """Whether a value is certainly not an unknown string."""
    if one is _MORE or isinstance(one, Instance | ImportedName | PartialFunction | Attribute):
        return False
    if isinstance(one, CallResult):
        kind = one.callee
        if isinstance(kind, ImportedName):
            return kind.path.rpartition(".")[2][:1].isupper()
        return isinstance(kind, Class) or (isinstance(kind, type) and not issubclass(kind, str))
    return True
