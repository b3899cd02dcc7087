"""The search with bounds and cut-offs returns the result of a full scan."""

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance.Levenshtein import distance

from guardagent import Demonstration, retrieve
from guardagent.programs.memory import sqlite
from guardagent.programs.memory.retrieval import DemonstrationCollection, Query, nearest
from guardagent.programs.memory.search import lower_bounds, profile, search, upper_bounds
from tests.tiers import examples, slow_after

Runs = Callable[..., list[Demonstration]]
Run = tuple[str, str]

texts = st.text(alphabet="aab é漢🙂\0\n", max_size=12) | st.text(max_size=6) | st.text("a", min_size=250, max_size=300)
pairs = st.tuples(texts, texts)


def far(run: Run, other: Run) -> int:
    return distance(run[0], other[0]) + distance(run[1], other[1])


def scan(runs: Sequence[Run], target: Run, k: int, *, least: bool) -> list[tuple[int, int]]:
    every = [(far(run, target), at) for at, run in enumerate(runs)]
    return sorted(every, key=lambda pair: (-pair[0] if least else pair[0], pair[1]))[:k]


@given(pairs, pairs)
def test_no_distance_is_outside_its_bounds(run: Run, other: Run) -> None:
    """For the input and for the output; for equal texts both are nothing."""
    made, target = profile(*run), profile(*other)
    low = lower_bounds(made, target)[0]
    assert low[0] <= distance(run[0], other[0])
    assert low[1] <= distance(run[1], other[1])
    assert far(run, other) <= upper_bounds(made, target)[0]
    assert lower_bounds(made, made).sum() == 0


def test_a_surrogate_alone_has_a_profile() -> None:
    """An agent's output may hold anything that JSON can."""
    assert lower_bounds(profile("\ud800", ""), profile("", "")).tolist() == [[1, 0]]


@given(st.lists(pairs, max_size=40), pairs, st.integers(0, 45), st.booleans())
def test_the_search_is_a_full_scan(runs: list[Run], target: Run, k: int, least: bool) -> None:
    """Distances and positions, with empty and equal texts, more asked for than there are, and ties in their order."""
    profiles = np.concatenate([profile("", "")[:0], *(profile(*run) for run in runs)])
    match = search(Query(*target, k, least), profiles, lambda chosen: {at: runs[at] for at in chosen})
    assert match == scan(runs, target, k, least=least)


@settings(max_examples=examples(10))
@given(st.lists(pairs, min_size=1, max_size=30, unique=True), pairs, st.integers(0, 35), st.booleans())
def test_a_database_finds_the_same(runs: list[Run], target: Run, k: int, least: bool) -> None:
    """Whatever texts it holds, and with some of the runs in a file before it."""
    runs = [run for run in runs if max("".join(run), default="") < "\ud800" or min("".join(run)) > "\udfff"]
    items = [Demonstration(*run, ("1", "2", "3", "4"), "pass") for run in runs]
    with tempfile.TemporaryDirectory() as folder:
        store = sqlite.Store(f"sqlite:{folder}/demonstrations.db")
        assert store.add(items[3:]) == len(items[3:])
        kept = DemonstrationCollection(items[:3], store)
        assert list(kept) == items
        expected = [items[at] for _, at in scan(runs, target, k, least=least)]
        assert retrieve(kept, *target, k, least_similar=least) == expected


@pytest.mark.parametrize("least", slow_after(1, [False, True]))
def test_a_long_list_is_searched_as_a_short_one(runs: Runs, tmp_path: Path, least: bool) -> None:
    """Also after it has changed in place: what is kept of a list is of that list."""
    items, rng = runs(600), random.Random(2)  # noqa: S311
    store = sqlite.Store(f"sqlite:{tmp_path / 'demonstrations.db'}")
    for _ in range(10):
        del items[rng.randrange(len(items))]
        items[rng.randrange(len(items))], target = items[0], rng.choice(items)
        query = (target.agent_input, target.agent_output[:-3] + "abc")
        store.add(items)
        for memory in (items, DemonstrationCollection((), store)):
            every = list(memory)
            ranked = scan(
                [(demonstration.agent_input, demonstration.agent_output) for demonstration in every],
                query,
                5,
                least=least,
            )
            assert retrieve(memory, *query, 5, least_similar=least) == [every[at] for _, at in ranked]


@given(st.lists(pairs, max_size=80), pairs, st.integers(1, 9), st.booleans(), st.floats(0, 1))
def test_max_distance_limits_the_result(runs: list[Run], target: Run, k: int, least: bool, cap: float) -> None:
    """The k nearest of those within it, in a list that is scanned and in one that is searched."""

    def greatest(run: Run) -> int:
        return sum(max(len(here), len(there)) for here, there in zip(run, target, strict=True))

    every = scan(runs, target, len(runs), least=least)
    expected = [at for far, at in every if far <= cap * greatest(runs[at])][:k]
    profiles = np.concatenate([profile("", "")[:0], *(profile(*run) for run in runs)])
    query = Query(*target, k, least, cap)
    assert [at for _, at in search(query, profiles, lambda chosen: {at: runs[at] for at in chosen})] == expected
    items = [Demonstration(*run, (), str(at)) for at, run in enumerate(runs)]
    assert [int(neighbour.demonstration.code) for neighbour in nearest(items, query)] == expected


def test_a_distance_is_a_share_of_the_greatest_one() -> None:
    """Two edits in six characters are within 0.34, and not within 0.33."""
    items = [Demonstration("abcd", "ef", ("1", "2", "3", "4"), "pass")]
    assert retrieve(items, "abxx", "ef", 1, max_distance=0.33) == []
    assert retrieve(items, "abxx", "ef", 1, max_distance=0.34) == items
    assert retrieve(items, "abcd", "ef", 1, max_distance=0) == items
