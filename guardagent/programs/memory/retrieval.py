"""Demonstrations, and retrieval: those nearest to a run, and the stores for many of them (paper, Section 4.2).

A demonstration is a past guard: an agent's input and output with a plan and code. The distance of two runs is the
Levenshtein distance of their inputs plus that of their outputs. Retrieval is exact for any number of demonstrations:
see `search.py`. A store has an address, a URL whose scheme selects its module.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from guardagent._support.files import read_json_lines, read_text
from guardagent._support.plugins import Plugins
from guardagent.errors import ContentError, name_hint
from guardagent.programs.program import parse_python

PLAN_STEPS = (
    "summarise the guard request",
    "filter what concerns the agent's input",
    "summarise the agent's output and locate it in the request",
    "say how code compares the two, and the engine that runs it",
)
"""The four mandatory steps of a demonstration's plan (Section 4.2), in order."""

_KEYS = ("agent_input", "agent_output", "plan", "code")


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One past guard, D = [I_i, I_o, P, C] in the paper."""

    agent_input: str
    agent_output: str
    plan: tuple[str, ...]
    code: str

    def to_json(self) -> str:
        record = {key: getattr(self, key) for key in _KEYS} | {"plan": list(self.plan)}
        return json.dumps(record, ensure_ascii=False)


def read_demonstrations(path: Path) -> list[Demonstration]:
    """The demonstrations of a JSON Lines file, each validated."""
    return [parse_demonstration(record, path, line) for line, record in read_json_lines(path)]


def parse_demonstration(record: Mapping[str, Any], path: Path | str, line: int | None) -> Demonstration:
    """Validates one demonstration.

    Raises:
        ContentError: a key is missing, unknown or of the wrong type, or the plan has not exactly four steps.
    """
    for key in record:
        if key not in _KEYS:
            raise ContentError(f"unknown key {key!r}{name_hint(key, _KEYS)}", path, line)
    for key in ("agent_input", "agent_output", "code"):
        if not isinstance(record.get(key), str) or not record[key].strip():
            raise ContentError(f"key {key!r} is missing or empty; expected a non-empty string", path, line)
    plan = record.get("plan")
    if not isinstance(plan, list) or not all(isinstance(step, str) and step.strip() for step in plan):
        raise ContentError("key 'plan' is not a list of strings; expected four steps", path, line)
    if len(plan) != len(PLAN_STEPS):
        steps = "; ".join(f"{number}) {step}" for number, step in enumerate(PLAN_STEPS, start=1))
        raise ContentError(f"the plan has {len(plan)} steps; expected four: {steps}", path, line)
    parse_python(record["code"], path, line)
    return Demonstration(record["agent_input"], record["agent_output"], tuple(plan), record["code"])


# --- retrieval

_PLACE = "guardagent.programs.memory"
STORES = Plugins(
    "store",
    "",
    ("Store",),
    group="guardagent.demonstration_stores",
    members={"chroma": f"{_PLACE}.chroma:Store", "sqlite": f"{_PLACE}.sqlite:Store"},
    adapt=lambda module: module.Store,
)
_ADDRESS = "demonstrations.url"
_DATABASE = "learned/demonstrations.db"
_FEW = 64  # scans shorter lists without loading numpy


@dataclass(frozen=True, slots=True)
class Query:
    """A query for the runs nearest to one.

    Attributes:
        agent_input: the input of the agent.
        agent_output: its actions and answer.
        k: the number of results.
        least_similar: return the farthest instead.
        max_distance: the maximal distance, as a share of the greatest possible distance of texts of these lengths:
            0 is equal, 1 has nothing in common.
    """

    agent_input: str
    agent_output: str
    k: int
    least_similar: bool = False
    max_distance: float | None = None

    def neighbour(self, demonstration: Demonstration, distance: int) -> Neighbour:
        """Returns a demonstration as a neighbour at this distance."""
        lengths = ((demonstration.agent_input, self.agent_input), (demonstration.agent_output, self.agent_output))
        return Neighbour(demonstration, distance, sum(max(len(there), len(here)) for there, here in lengths))

    def admits(self, distance: int, greatest: int) -> bool:
        """Whether a distance is within `max_distance`; `greatest` is the greatest possible distance."""
        return self.max_distance is None or distance <= self.max_distance * greatest

    def best(self, neighbours: Iterable[Neighbour]) -> list[Neighbour]:
        """Returns the k best neighbours; the first ones of equal distance."""
        near = (neighbour for neighbour in neighbours if self.admits(neighbour.distance, neighbour.greatest))
        return heapq.nsmallest(
            self.k, near, key=lambda neighbour: -neighbour.distance if self.least_similar else neighbour.distance
        )


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A demonstration with its distance from a query.

    Attributes:
        distance: the distance of the inputs plus that of the outputs.
        greatest: the greatest possible distance: the longer input's length plus the longer output's.
    """

    demonstration: Demonstration
    distance: int
    greatest: int


class Store(Protocol):
    """Stores demonstrations in insertion order. Safe among threads and processes."""

    address: str

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Demonstration]: ...

    def add(self, new: Sequence[Demonstration]) -> int:
        """Adds all new ones or none, and returns their number; on return they survive any crash."""
        ...

    def known(self, demonstrations: Collection[Demonstration]) -> set[Demonstration]:
        """Returns the demonstrations that the store has."""
        ...

    def nearest(self, query: Query) -> list[Neighbour]:
        """Returns the k nearest, nearest first, or the k farthest, farthest first; ties in the order of the store."""
        ...


def nearest(demonstrations: Sequence[Demonstration], query: Query) -> list[Neighbour]:
    """Returns the result of a query with distances; ties in the order of the memory."""
    if isinstance(demonstrations, DemonstrationCollection):
        return demonstrations.nearest(query)
    items = tuple(demonstrations)
    if len(items) < _FEW or not query.k:
        return query.best(neighbours_of(items, query))
    from guardagent.programs.memory.search import search_list

    return search_list(items, query)


def neighbours_of(items: Iterable[Demonstration], query: Query) -> Iterator[Neighbour]:
    """Yields demonstrations with their distances."""
    from rapidfuzz.distance.Levenshtein import distance

    for item in items:
        far = distance(item.agent_input, query.agent_input) + distance(item.agent_output, query.agent_output)
        yield query.neighbour(item, far)


def retrieve(
    demonstrations: Sequence[Demonstration],
    agent_input: str,
    agent_output: str,
    k: int,
    *,
    least_similar: bool = False,
    max_distance: float | None = None,
) -> list[Demonstration]:
    """Returns the k demonstrations nearest to a run, nearest first; with `least_similar`, the k farthest.

    The distance is the Levenshtein distance between the inputs plus that between the outputs
    (Section 4.2; least similarity: Appendix M). Exact; equal distances keep the order of the memory.

    Args:
        demonstrations: the demonstrations of an agent, or any list.
        agent_input: the input of the agent.
        agent_output: its actions and answer.
        k: the number of results.
        least_similar: return the farthest instead, farthest first.
        max_distance: the maximal distance, as a share of the greatest possible distance of texts of these lengths:
            0 is equal, 1 has nothing in common.
    """
    query = Query(agent_input, agent_output, k, least_similar, max_distance)
    return [neighbour.demonstration for neighbour in nearest(demonstrations, query)]


class DemonstrationCollection(Sequence[Demonstration]):
    """The demonstrations of a file, in memory, followed by those of a store."""

    def __init__(self, written: Sequence[Demonstration], store: Store) -> None:
        self.file_items = written
        self.store = store

    def __len__(self) -> int:
        return len(self.file_items) + len(self.store)

    def __iter__(self) -> Iterator[Demonstration]:
        yield from self.file_items
        yield from self.store

    def __getitem__(self, index: int | slice) -> Any:
        """Returns items by position, as a list does; reads the whole store."""
        return list(self)[index]

    def __contains__(self, demonstration: object) -> bool:
        return demonstration in self.file_items or (
            isinstance(demonstration, Demonstration) and bool(self.store.known([demonstration]))
        )

    def nearest(self, query: Query) -> list[Neighbour]:
        """Returns the result of a query over both; ties with those of the file first."""
        return query.best([*nearest(self.file_items, query), *self.store.nearest(query)])


def shortage(demonstrations: Sequence[Demonstration], query: Query, neighbours: Sequence[Neighbour]) -> str | None:
    """Returns a note if `max_distance` left fewer demonstrations than requested, else None."""
    wanted = min(query.k, len(demonstrations)) if query.max_distance is not None else 0
    if len(neighbours) >= wanted:
        return None
    return (
        f"{len(neighbours)} of {wanted} demonstrations are shown: the others are farther from this run than "
        f"'max_distance' {query.max_distance}; add demonstrations of similar runs"
    )


def file_demonstrations(demonstrations: Sequence[Demonstration]) -> Sequence[Demonstration]:
    """Returns the demonstrations of the file only, few enough for a full scan."""
    return demonstrations.file_items if isinstance(demonstrations, DemonstrationCollection) else demonstrations


def file_order(ordered: Iterable[Demonstration], demonstrations: Sequence[Demonstration]) -> list[Demonstration]:
    """Sorts demonstrations, those of the file first in its order, so that prompts share a prefix for caching."""
    places = {file_demonstration: place for place, file_demonstration in enumerate(file_demonstrations(demonstrations))}
    return sorted(ordered, key=lambda demonstration: places.get(demonstration, len(places)))


def store_of(folder: Path) -> Store | None:
    """Returns the store of an agent's folder: the one in `demonstrations.url`, else its own database, if any.

    Raises:
        ContentError: the address is invalid.
    """
    if (folder / _ADDRESS).exists():
        return open_store(read_text(folder / _ADDRESS).strip(), folder / _ADDRESS)
    return own_store(folder) if (folder / _DATABASE).exists() else None


def own_store(folder: Path) -> Store:
    """Returns the database in an agent's folder; the first addition creates it."""
    from guardagent.programs.memory import sqlite

    return sqlite.Store(f"sqlite:{folder / _DATABASE}")


def open_store(address: str, path: Path | str) -> Store:
    """Opens the store with an address such as `chroma://localhost:8000/refunds`, read from the file `path`.

    Raises:
        ContentError: the address is invalid, or a package for the store is not installed.
    """
    scheme, colon, _ = address.partition(":")
    if not colon or "\n" in address:
        raise ContentError(
            f"{address!r} is not an address; expected one line such as 'chroma://localhost:8000/NAME'", path
        )
    try:
        store: Store = STORES.load(scheme, where=str(path))(address)
    except ValueError as error:
        raise ContentError(str(error), path) from None
    return store
