"""The work of a run on the rows of a partition. Engines distribute it without knowing what it does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, Self, TypeVar

import pyarrow as pa


class Summary(Protocol):
    """Numbers about results. One without arguments is that of no results. It travels as JSON."""

    def __init__(self) -> None: ...

    def __add__(self, other: Self) -> Self: ...

    def to_dict(self) -> dict[str, Any]: ...

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self: ...


Summarized = TypeVar("Summarized", bound=Summary)
Result_co = TypeVar("Result_co", bound=Summary, covariant=True)


class Work(Protocol[Result_co]):
    """The work on a partition; workers get a pickled copy.

    Attributes:
        name: the command that it is for.
        schema: the schema of its results.
        summary: the type of their summaries.
        digest: changes with its policies.
        about: what the manifest says of it.
        counters: the names of the counters that need all traces in one partition.
    """

    @property
    def name(self) -> str: ...

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def summary(self) -> type[Result_co]: ...

    @property
    def digest(self) -> str: ...

    @property
    def about(self) -> Mapping[str, Any]: ...

    @property
    def counters(self) -> tuple[str, ...]: ...

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, Result_co]]:
        """Yields results, each with a summary of them.

        Args:
            rows: rows in the schema `EVENTS`. The rows of a trace are adjacent.

        Raises:
            InputError: the rows of a trace are not adjacent, or the policies cannot be loaded.
        """
        ...
