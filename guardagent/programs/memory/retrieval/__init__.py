"""Retrieval: the demonstrations nearest to a run, and where a memory keeps many of them (paper, Section 4.2).

The distance of two runs is the Levenshtein distance of their inputs plus that of their outputs. What is found is exact,
however many there are: see `search.py`. A store is a module of `stores/` with a class `Store(address)`; an address
is a URL, and its scheme is the module's name.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from guardagent._support.files import read_text
from guardagent._support.plugins import Plugins
from guardagent.errors import ContentError
from guardagent.programs.memory.demonstrations import Demonstration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

STORES = Plugins(
    "store", "guardagent.programs.memory.retrieval.stores", ("Store",), group="guardagent.demonstration_stores"
)
_ADDRESS = "demonstrations.url"
_DATABASE = "learned/demonstrations.db"


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked for: the runs nearest to one.

    Attributes:
        agent_input: what the agent was asked.
        agent_output: what it did and answered.
        k: how many.
        least_similar: the farthest instead.
        max_distance: only such as are at most so far, as a share of the greatest distance that texts of these lengths
            can have: 0 is equal, 1 nothing alike.
    """

    agent_input: str
    agent_output: str
    k: int
    least_similar: bool = False
    max_distance: float | None = None

    def neighbour(self, one: Demonstration, distance: int) -> Neighbour:
        """A demonstration that is so far from what is asked for."""
        lengths = ((one.agent_input, self.agent_input), (one.agent_output, self.agent_output))
        return Neighbour(one, distance, sum(max(len(there), len(here)) for there, here in lengths))

    def admits(self, distance: int, greatest: int) -> bool:
        """Whether it is not too far, where `greatest` is how far it could be."""
        return self.max_distance is None or distance <= self.max_distance * greatest

    def best(self, neighbours: Iterable[Neighbour]) -> list[Neighbour]:
        """The k best; of those that are equally far, the first."""
        near = (one for one in neighbours if self.admits(one.distance, one.greatest))
        return heapq.nsmallest(self.k, near, key=lambda one: -one.distance if self.least_similar else one.distance)


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A demonstration that was found.

    Attributes:
        distance: that of the inputs plus that of the outputs.
        greatest: how far it could be: the length of the longer input plus that of the longer output.
    """

    demonstration: Demonstration
    distance: int
    greatest: int


class Store(Protocol):
    """Keeps demonstrations, in the order in which they were added. Safe among threads and processes."""

    address: str

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Demonstration]: ...

    def add(self, new: Sequence[Demonstration]) -> int:
        """Adds all that are not there yet, or none, and says how many; when it returns, they outlive any crash."""
        ...

    def known(self, demonstrations: Collection[Demonstration]) -> set[Demonstration]:
        """Those that are there."""
        ...

    def nearest(self, query: Query) -> list[Neighbour]:
        """The k nearest, nearest first, or the k farthest, farthest first; ties in the order of the store."""
        ...


def nearest(demonstrations: Sequence[Demonstration], query: Query) -> list[Neighbour]:
    """Those that are asked for, with their distances; ties in the order of the memory."""
    if isinstance(demonstrations, DemonstrationCollection):
        return demonstrations.nearest(query)
    from guardagent.programs.memory.retrieval.list_search import nearest_in_list

    return nearest_in_list(demonstrations, query)


def retrieve(
    demonstrations: Sequence[Demonstration],
    agent_input: str,
    agent_output: str,
    k: int,
    *,
    least_similar: bool = False,
    max_distance: float | None = None,
) -> list[Demonstration]:
    """The k demonstrations nearest to a run, nearest first; with `least_similar`, the k farthest, farthest first.

    The distance is the Levenshtein distance between the inputs plus that between the outputs
    (Section 4.2; least similarity: Appendix M). Exact; equal distances keep the order of the memory.

    Args:
        demonstrations: those of an agent, or any list.
        agent_input: what the agent was asked.
        agent_output: what it did and answered.
        k: how many.
        least_similar: the farthest instead.
        max_distance: only such as are at most so far, as a share of the greatest distance that texts of these lengths
            can have: 0 is equal, 1 nothing alike.
    """
    query = Query(agent_input, agent_output, k, least_similar, max_distance)
    return [one.demonstration for one in nearest(demonstrations, query)]


class DemonstrationCollection(Sequence[Demonstration]):
    """The demonstrations that stand in a file, then those of a store, of which none is held in memory."""

    def __init__(self, written: Sequence[Demonstration], store: Store) -> None:
        self.file_items = written
        self.store = store

    def __len__(self) -> int:
        return len(self.file_items) + len(self.store)

    def __iter__(self) -> Iterator[Demonstration]:
        yield from self.file_items
        yield from self.store

    def __getitem__(self, index: int | slice) -> Any:
        """By position, as in a list; it reads all of them."""
        return list(self)[index]

    def __contains__(self, found: object) -> bool:
        return found in self.file_items or (isinstance(found, Demonstration) and bool(self.store.known([found])))

    def nearest(self, query: Query) -> list[Neighbour]:
        """Of both; where distances are equal, those of the file come first."""
        return query.best([*nearest(self.file_items, query), *self.store.nearest(query)])


def shortage(demonstrations: Sequence[Demonstration], query: Query, found: Sequence[Neighbour]) -> str | None:
    """What is to be said where demonstrations are there, but too far from the run to be shown."""
    wanted = min(query.k, len(demonstrations)) if query.max_distance is not None else 0
    if len(found) >= wanted:
        return None
    return (
        f"{len(found)} demonstrations of {wanted} are shown: the others are farther from this run than max_distance "
        f"{query.max_distance}; little like it is remembered"
    )


def file_demonstrations(demonstrations: Sequence[Demonstration]) -> Sequence[Demonstration]:
    """Those that stand in a file: few enough to look at every one."""
    return demonstrations.file_items if isinstance(demonstrations, DemonstrationCollection) else demonstrations


def file_order(found: Iterable[Demonstration], demonstrations: Sequence[Demonstration]) -> list[Demonstration]:
    """What was found, those of a file first and as they stand there: so that prompts for different runs begin alike."""
    places = {one: place for place, one in enumerate(file_demonstrations(demonstrations))}
    return sorted(found, key=lambda one: places.get(one, len(places)))


def store_of(folder: Path) -> Store | None:
    """The store of an agent's folder: the one that its `demonstrations.url` names, else its own database, if any.

    Raises:
        ContentError: the address is none.
    """
    if (folder / _ADDRESS).exists():
        return open_store(read_text(folder / _ADDRESS).strip(), folder / _ADDRESS)
    return own_store(folder) if (folder / _DATABASE).exists() else None


def own_store(folder: Path) -> Store:
    """The database in an agent's folder, which is made when something is added to it."""
    from guardagent.programs.memory.retrieval.stores import sqlite

    return sqlite.Store(f"sqlite:{folder / _DATABASE}")


def open_store(address: str, path: Path | str) -> Store:
    """The store with an address, such as `chroma://localhost:8000/refunds`; `path` names the file it stands in.

    Raises:
        ContentError: it is no address, or what it needs is not installed.
    """
    scheme, colon, _ = address.partition(":")
    if not colon or "\n" in address:
        raise ContentError(f"{address!r} is no address; expected one line, such as chroma://localhost:8000/NAME", path)
    try:
        store: Store = STORES.load(scheme, where=str(path)).Store(address)
    except ValueError as error:
        raise ContentError(str(error), path) from None
    return store
