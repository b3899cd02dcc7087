"""The texts among some values, one by one or in lists, and whether there can be others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from guardagent.workflow.python_source.evaluation.values import (
    Applied,
    Attribute,
    Class,
    Imported,
    Instance,
    Made,
    Sequence,
    Values,
    exactly,
    text,
)

_MORE: Any = object()


class Texts(NamedTuple):
    """Texts; there are no others where `complete`."""

    known: frozenset[str]
    complete: bool

    @classmethod
    def of(cls, values: Values) -> Texts:
        every = list(flat(values))
        return cls(frozenset(text(one) for one in every if isinstance(one, str)), all(map(_is_told, every)))


def flat(values: Values) -> Iterator[object]:
    """All values, with those in lists; something that is not told where there can be others."""
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


def _is_told(one: object) -> bool:
    """Whether it is certain that a value is no text that is not known."""
    if one is _MORE or isinstance(one, Instance | Imported | Applied | Attribute):
        return False
    if isinstance(one, Made):
        kind = one.maker
        if isinstance(kind, Imported):
            return kind.path.rpartition(".")[2][:1].isupper()
        return isinstance(kind, Class) or (isinstance(kind, type) and not issubclass(kind, str))
    return True
