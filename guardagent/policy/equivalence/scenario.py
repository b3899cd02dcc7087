"""A conversation as a plain tree of values, which the search changes one value at a time."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from guardagent.policy.equivalence.witness import Path, Witness
from guardagent.types import Event, thaw

ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "ABSENT"})()
"""The value of a place that has none."""

Scenario = dict[str, Any]
"""`history` and `proposed` (`tool`, `args`, `output`, `status`, `age`), `facts`, `state`, `principal`, `now`.

`age` is the number of seconds before `now`; None if the time is unknown.
"""


def witness_of(scenario: Scenario) -> Witness:
    """The witness of a scenario."""
    now = scenario["now"]
    history = tuple(_event(one, now) for one in scenario["history"])
    proposed = scenario["proposed"]
    return Witness(
        history,
        None if proposed is None else Event(proposed["tool"], proposed["args"], **_labels(proposed)),
        scenario["facts"],
        scenario["state"] or None,
        scenario["principal"] or None,
        now,
    )


def _event(one: Mapping[str, Any], now: dt.datetime | None) -> Event:
    age = one["age"]
    time = None if now is None or age is None else now - dt.timedelta(seconds=age)
    output = one.get("output") if one["status"] != "unknown" else None
    return Event(one["tool"], one["args"], output, one["status"], time=time, **_labels(one))


def _labels(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one[name] for name in ("action", "decision", "tags") if name in one}


def scenario_of(witness: Witness) -> Scenario:
    """The scenario of a witness."""
    return {
        "history": [_call_values(one, witness.now) for one in witness.history],
        "proposed": None if witness.proposed is None else _call_values(witness.proposed, None),
        "facts": thaw(witness.facts),
        "state": thaw(witness.state or {}),
        "principal": thaw(witness.principal or {}),
        "now": witness.now,
    }


def _call_values(event: Event, now: dt.datetime | None) -> dict[str, Any]:
    age = (now - event.time).total_seconds() if isinstance(event.time, dt.datetime) and now is not None else None
    labels = {name: getattr(event, name) for name in ("action", "decision", "tags") if getattr(event, name)}
    found = {"tool": event.tool, "args": thaw(event.args), "output": thaw(event.output), **labels}
    return {**found, "status": event.status or "ok", "age": age}


def value_at(scenario: Any, path: Path) -> Any:
    """The value at a path, or ABSENT."""
    for key in path:
        found = scenario.get(key, ABSENT) if isinstance(scenario, Mapping) else ABSENT
        if isinstance(scenario, list) and isinstance(key, int) and key < len(scenario):
            found = scenario[key]
        scenario = found
    return scenario


def changed(scenario: Scenario, path: Path, value: Any) -> Scenario:
    """A copy with another value at a path; ABSENT removes it."""
    found = copy.deepcopy(scenario)
    at: Any = found
    for key, following in pairwise(path):
        if isinstance(at, dict) and not isinstance(at.get(key), dict | list):
            at[key] = {} if isinstance(following, str) else []
        at = at[key]
    if value is ABSENT:
        at.pop(path[-1], None) if isinstance(at, dict) else None
    else:
        at[path[-1]] = value
    return found


def paths_of(scenario: Scenario) -> Iterator[Path]:
    """Yields the paths of the values of arguments, outputs, facts, the state and the principal."""
    for at, one in enumerate(scenario["history"]):
        yield from _leaves(one["args"], ("history", at, "args"))
        yield from _leaves(one["output"], ("history", at, "output"))
    if scenario["proposed"] is not None:
        yield from _leaves(scenario["proposed"]["args"], ("proposed", "args"))
    for name in ("facts", "state", "principal"):
        yield from _leaves(scenario[name], (name,))


def _leaves(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _leaves(one, (*path, key))
    elif value is not None:
        yield path
