"""Whole-log replay gives the results of stepping, for every form of events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.whole_logs import Coded, Columns, replay_batch
from guardagent import InputError
from guardagent.policy.monitors.automaton import Compiled
from guardagent.types import Event
from tests.policy.rules import RULES, TOOLS_ONLY, chosen_rules, events, rule, stepped

Traces = list[list[Event]]

traces_of_events = st.lists(st.lists(events, max_size=8), max_size=40)


def agrees(rules: Sequence[Compiled], traces: Traces, source: Traces | Columns) -> bool:
    replay = replay_batch(rules, source)
    assert replay.standings.shape == replay.violated_by.shape == (len(rules), len(traces))
    zips = [list(zip(*rows, strict=True)) for rows in zip(replay.standings, replay.violated_by, strict=True)]
    return zips == [[stepped(rule, trace) for trace in traces] for rule in rules]


def columns(traces: Traces, *, coded: bool = False) -> Columns:
    def column(name: str) -> Any:
        values = [getattr(event, name) for trace in traces for event in trace]
        different = list(set(values))
        return Coded([different.index(value) for value in values], different) if coded else values

    lengths, ok = [len(trace) for trace in traces], [event.status == "ok" for trace in traces for event in trace]
    return Columns(lengths, ok, column("tool"), column("action"), column("decision"), column("tags"))


@given(chosen_rules, traces_of_events)
def test_a_batch_agrees_with_stepping(rules: list[Compiled], traces: Traces) -> None:
    """For events as they are, and as columns of values or of codes."""
    assert agrees(rules, traces, traces)
    assert agrees(rules, traces, columns(traces))
    assert agrees(rules, traces, columns(traces, coded=True))


@given(traces_of_events)
def test_rules_over_tools_alone_agree_too(traces: Traces) -> None:
    """They take a shorter way."""
    assert agrees(TOOLS_ONLY, traces, traces)
    assert agrees(TOOLS_ONLY, traces, columns(traces))


def test_traces_of_very_different_lengths() -> None:
    """A long trace goes on alone after all others have ended."""
    traces = [[Event("list", status="ok")] * length for length in [*range(40), 5000]]
    traces[-1][4000] = Event("get", status="ok")
    assert agrees(RULES, traces, traces)
    assert replay_batch([rule("tool:get -> F[<=2] tool:send")], traces).violated_by[0, -1] == 4002


def test_many_kinds_of_events() -> None:
    """More than are worth a table: 2 x 40 tools x 40 tags."""
    rules = [*(rule(f"tool:t{at} -> F tag{at}") for at in range(0, 40, 4)), *(rule(f"G !tag{at}") for at in range(40))]
    rules += [rule(f"G !tool:t{at}") for at in range(1, 40, 2)]
    shown = np.random.default_rng(3).integers(0, 40, (200, 2, 6))
    traces = [
        [
            Event(f"t{tool}", status="ok", tags=frozenset({f"tag{tag}", f"tag{tool}"}))
            for tool, tag in zip(*pair, strict=True)
        ]
        for pair in shown
    ]
    assert agrees(rules, traces, columns(traces))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Columns([2], [True, True], ["a"]), "column tool has 1 entries for 2 events"),
        (lambda: Columns([2], [True], ["a", "b"]), "column ok has 1 entries"),
        (lambda: Columns([3, -1], [True, True], ["a", "b"]), "a trace has -1 events"),
        (lambda: Columns([1], [True], Coded([-1], ["a"])), "codes from -1 to -1; expected 0 to 0"),
        (lambda: Columns([1], [True], Coded([1], ["a"])), "codes from 1 to 1"),
        (lambda: replay_batch([rule("G !pii")], Columns([1], [True], ["a"])), "reads the 'tags' of an event"),
    ],
)
def test_columns_that_do_not_fit_are_refused(make: Any, problem: str) -> None:
    """Incomplete columns are an error."""
    with pytest.raises(InputError, match=problem):
        make()
