"""The values that a search gives to each place of a scenario, the plainest first.

A place has one or several paths in a scenario: a computed key, such as an argument, gives one for each of its values.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from random import Random
from typing import Any

from guardagent.policy.equivalence.draft import ABSENT, ComparedDraft, Path, Scenario, changed, value_at
from guardagent.policy.equivalence.phrases import OTHER, ToolDescription, schema_of
from guardagent.policy.equivalence.places import ITEMS, KEY, Place, PlaceUse, PolicyPlaces, near
from guardagent.policy.language.values import kind_of
from guardagent.policy.logic.search import choices, schema_allows

# --- paths

MAX_DEPTH = 4  # of keys that are values at places with keys

Keys = Mapping[Place, Sequence[Place]]
"""The places of each computed key, by the place that ends with it."""


def paths_of_place(scenario: Scenario, place: Place, keys: Keys, depth: int = MAX_DEPTH) -> list[Path]:
    """The paths of a place, once each. A key that has no string as its value has none."""
    return list(dict.fromkeys(_paths(scenario, place, keys, depth)))


def _paths(scenario: Scenario, place: Place, keys: Keys, depth: int) -> Iterator[Path]:
    paths, begun = _roots(scenario, place)
    for at in range(begun, len(place)):
        if place[at] == KEY:
            names = _key_values(scenario, keys.get(place[: at + 1], ()), keys, depth)
            paths = [(*path, name) for path in paths for name in names]
        elif place[at] == ITEMS:
            paths = [(*path, number) for path in paths for number in range(_length(value_at(scenario, path)))]
        else:
            paths = [(*path, place[at]) for path in paths]
    yield from paths


def _roots(scenario: Scenario, place: Place) -> tuple[list[Path], int]:
    """The paths at which a place begins, and the number of its keys that they cover."""
    if place[0] in ("args", "output"):
        calls: list[tuple[Path, str]] = [(("history", at), call["tool"]) for at, call in enumerate(scenario["history"])]
        if scenario["proposed"] is not None and place[0] == "args":
            calls.append((("proposed",), scenario["proposed"]["tool"]))
        return [(*path, place[0]) for path, tool in calls if tool == place[1]], 2
    return [("facts" if place[0] == "fact" else place[0],)], 1


def _key_values(scenario: Scenario, places: Sequence[Place], keys: Keys, depth: int) -> list[str]:
    if not depth:
        return []
    paths = (path for place in places for path in paths_of_place(scenario, place, keys, depth - 1))
    values = (value_at(scenario, path) for path in paths)
    return list(dict.fromkeys(value for value in values if isinstance(value, str)))


def _length(value: object) -> int:
    return len(value) if isinstance(value, list) else 0


# --- values

NOON = dt.datetime(2026, 1, 28, 12, tzinfo=dt.UTC)
"""The time of a proposed call: a Wednesday."""

STATUSES = ("ok", "failed", "unknown")
MAX_VALUES = 16
MAX_MOMENTS = 100
_JSON_DEFAULTS: Mapping[str, Sequence[Any]] = {
    "string": ("A", "B"),
    "number": (1, 2, 0),
    "integer": (1, 2, 0),
    "boolean": (True, False),
    "array": (["A"], [], ["A", "B"]),
    "object": ({},),
}
_ROLE = "another_role"

Facts = Mapping[str, Sequence[str]]
NO_VALUES: Facts = {}


class Variations:
    """The values of two drafts' places.

    Args:
        drafts: the drafts.
        tools: the descriptions of the tools.
        facts: strings that facts can be.
    """

    def __init__(
        self, drafts: Sequence[ComparedDraft], tools: Mapping[str, ToolDescription], facts: Facts = NO_VALUES
    ) -> None:
        self.places = PolicyPlaces([draft.policies for draft in drafts])
        self._tools, self._facts = tools, facts
        self.judged = sorted({tool for draft in drafts for tool in draft.tools})
        self._pools: dict[Place, list[Any]] = {}

    # --- values

    def values(self, place: Place) -> list[Any]:
        """The values of a place, the plainest first; ABSENT last."""
        if place not in self._pools:
            self._pools[place] = self._found(place)
        return self._pools[place]

    def _found(self, place: Place) -> list[Any]:
        if place[0] == "principal":
            return self._principals(place[1])
        schema = self._schema(place)
        use = self.places.uses.get(place, PlaceUse())
        if use.moment:
            days = range(7 if self.places.clock else 1)
            return [*_moments(use, sorted(self.places.seconds), days)[:MAX_MOMENTS], ABSENT]
        if place[0] == "fact" and (known := self._facts.get(".".join(place[1:]))):
            return [*_distinct([*known, *use.constants.values()]), ABSENT][:MAX_VALUES]
        few = choices(schema) if schema else None
        values = list(few) if few is not None else _plain(use, self._items(place), schema)
        fitting = [value for value in values if not schema or schema_allows(schema, value) is not False]
        return [*_distinct(fitting or values), ABSENT][:MAX_VALUES]

    def _items(self, place: Place) -> list[Any]:
        """The items that matter in a list: values, or objects with a field that matters."""
        inner = self.places.uses.get((*place, ITEMS))
        fields = [use for use in self.places.uses if use[:-1] == (*place, ITEMS)]
        known = {field[-1]: [value for value in self.values(field) if value is not ABSENT] for field in fields}
        plain = {name: values[0] for name, values in known.items() if values}
        whole = [{**plain, name: value} for name, values in known.items() for value in values]
        parts = [{name: value} for name, values in known.items() for value in values[:1]] if len(known) > 1 else []
        return [*(inner.constants.values() if inner is not None else ()), *_distinct([*whole, *parts])]

    def _schema(self, place: Place) -> Mapping[str, Any]:
        tool = self._tools.get(place[1]) if place[0] in ("args", "output") else None
        if tool is None:
            return {}
        schema = tool.output if place[0] == "output" else {"properties": tool.arguments}
        for key in place[2:]:
            schema = schema_of(schema.get("items") if key == ITEMS else schema_of(schema.get("properties")).get(key))
        return schema

    def _principals(self, field: str) -> list[Any]:
        use = self.places.uses.get(("principal", field), PlaceUse())
        texts = [constant for constant in use.constants.values() if isinstance(constant, str)]
        if field == "roles":
            return [*([text] for text in texts), [_ROLE], [], ABSENT]
        if field == "on_behalf_of":
            return [ABSENT, {"id": "A", "roles": texts}]
        return [*texts, "A", "B", *([ABSENT] if field != "id" else [])]

    def needs(self, place: Place) -> bool:
        """Whether a call without this argument would be unusual."""
        tool = self._tools.get(place[1])
        if tool is None or tool.arguments is None:
            return place in self.places.uses
        return place[2] in tool.required

    # --- slots

    @cached_property
    def ages(self) -> list[Any]:
        """The ages of earlier calls, around the windows of the drafts."""
        ages: list[Any] = [60]
        for window in sorted(self.places.seconds):
            ages += [window, window + 1, window - 1] if window > 0 else []
        return [float(age) if age != int(age) else int(age) for age in ages if age >= 0] + [None]

    @cached_property
    def moments(self) -> list[Any]:
        """The times of the proposed call."""
        if not self.places.reads_time:
            return [None]
        hours = sorted(self.places.hours) if self.places.clock else []
        around = [(hour, minutes) for hour in hours for minutes in (0, -1, 1)]
        moments = [NOON, *(NOON.replace(hour=0) + dt.timedelta(hours=int(at), minutes=more) for at, more in around)]
        days = range(1, 7) if self.places.clock else ()
        return [*moments, *(NOON + dt.timedelta(days=day) for day in days), None]

    def slots(self, scenario: Scenario) -> Iterator[tuple[Path, Sequence[Any]]]:
        """Yields the paths of a scenario that can change, with their values."""
        for at, call in enumerate(scenario["history"]):
            yield from self._call_slots(call["tool"], ("history", at))
            yield ("history", at, "status"), STATUSES
            if self.places.reads_time:
                yield ("history", at, "age"), self.ages
        if scenario["proposed"] is not None:
            yield from self._call_slots(scenario["proposed"]["tool"], ("proposed",))
        for place in self.places.uses:
            if place[0] in ("state", "principal") and len(place) == 2:
                yield place, self.values(place)
            elif place[0] in ("fact", "state") and ITEMS not in place and not self._has_inner(place):
                yield from ((path, self.values(place)) for path in paths_of_place(scenario, place, self.places.keys))
        if self.places.reads_time:
            yield ("now",), self.moments

    def _has_inner(self, place: Place) -> bool:
        inner = (use[len(place) :] for use in self.places.uses if use[: len(place)] == place)
        return any(suffix and ITEMS not in suffix for suffix in inner)

    def _call_slots(self, tool: str, path: Path) -> Iterator[tuple[Path, Sequence[Any]]]:
        for place in self.places.uses:
            is_leaf = len(place) > 2 and not {ITEMS, KEY} & {*place} and not self._has_inner(place)
            if place[1:2] == (tool,) and is_leaf and (place[0] == "args" or path[0] == "history"):
                values = self.values(place)
                yield (*path, place[0], *place[2:]), values[:-1] if self._is_required(place) else values

    def _is_required(self, place: Place) -> bool:
        """Whether the schema of the tool has every call name this argument: no other call reaches the rules."""
        tool = self._tools.get(place[1])
        return place[0] == "args" and len(place) == 3 and tool is not None and place[2] in tool.required

    # --- random scenarios

    def scenario(self, random: Random) -> Scenario:
        """A random scenario."""
        called = list(self.places.called)
        count = random.choice((0, 1, 1, 2, 2, 3)) if called else 0
        if self.places.repeats and called and random.random() < 0.5:
            count = max(0, random.choice(sorted(self.places.repeats)) + random.choice((-1, 0, 1)))
        many = random.random() < 0.4
        tools = [random.choice(called)] * count if many and called else [random.choice(called) for _ in range(count)]
        ends = random.random() < 0.15 and bool(called)
        scenario = self._empty(tools, None if ends else random.choice(self.judged) if self.judged else OTHER)
        alike = random.random() < 0.6
        filled: set[Path] = set()
        while new := [slot for slot in self.slots(scenario) if slot[0] not in filled]:  # values are keys of others
            for path, values in new:
                scenario = changed(scenario, path, _pick(values, random, plain=alike))
            filled |= {path for path, _ in new}
        return _completed(scenario)

    def _empty(self, tools: Sequence[str], proposed: str | None) -> Scenario:
        called = [*tools, *([proposed] if proposed else [])]
        calls: list[Any] = [{"tool": tool, "args": {}, "output": {}, "status": "ok", "age": None} for tool in called]
        last = calls.pop() if proposed else None
        return {"history": calls, "proposed": last, "facts": {}, "state": {}, "principal": {}, "now": None}

    def neighbours(self, scenario: Scenario) -> Iterator[Scenario]:
        """Yields the scenarios that differ in one value."""
        for path, values in list(self.slots(scenario)):
            for value in values:
                yield _completed(changed(scenario, path, value))


def _completed(scenario: Scenario) -> Scenario:
    """Adds the id of a principal, and orders the calls by time."""
    if scenario["principal"] and "id" not in scenario["principal"]:
        scenario["principal"] = {**scenario["principal"], "id": "A"}
    known = [call["age"] for call in scenario["history"] if call["age"] is not None]
    ages = iter(sorted(known, reverse=True))
    for call in scenario["history"]:
        if call["age"] is not None:
            call["age"] = next(ages)
    return scenario


def _pick(values: Sequence[Any], random: Random, *, plain: bool) -> Any:
    """Mostly one of the first values."""
    if plain and random.random() < 0.7:
        return values[0]
    if len(values) > 1 and values[-1] in (ABSENT, None) and random.random() < 0.7:
        values = values[:-1]
    return random.choice(values)


def _plain(use: PlaceUse, items: Sequence[Any], schema: Mapping[str, Any]) -> list[Any]:
    kinds = {kind_of(constant) for constant in use.constants.values()}
    values = [close for constant in use.constants.values() for close in near(constant)[:1]]
    values += [close for constant in use.constants.values() for close in near(constant)[1:]]
    if use.is_list or use.lengths:
        texts = [constant for constant in [*use.constants.values(), *items] if isinstance(constant, str | int)]
        dicts = [item for item in items if isinstance(item, dict)]
        objects = [*([mapping] for mapping in dicts), *([dicts[0], mapping] for mapping in dicts[1:])]
        lengths = [
            ["A"] * (length + more) for length in sorted(use.lengths) for more in (0, 1, -1) if length + more >= 0
        ]
        return [*lengths, *objects, *([text] for text in texts), ["A"], [], texts or ["A", "B"], *texts, "A"]
    if use.is_truth and not use.constants:
        return [True, False]
    if "truth value" in kinds:
        return [True, False, *(value for value in values if not isinstance(value, bool))]
    if use.is_number or "number" in kinds:
        return [1, *values, 2, 0, *([1000] if not values else [])]
    if kind := schema.get("type"):
        values += _JSON_DEFAULTS.get(kind if isinstance(kind, str) else "string", ("A", "B"))
        return values
    return [*values, "A", "B"]


def _moments(use: PlaceUse, seconds: Sequence[Any], days: Sequence[int]) -> list[Any]:
    """Instants at the limits of time that drafts have, before the time of a call on one of some days."""
    ages = [60, *([age for window in seconds for age in (window, window + 1, window - 1)] or [0]), -60]
    moments = [NOON + dt.timedelta(days=day) - dt.timedelta(seconds=float(age)) for day in days for age in ages]
    return [moment.isoformat() if use.moment == "text" else int(moment.timestamp()) for moment in moments]


def _distinct(values: Sequence[Any]) -> list[Any]:
    return list({repr(value): value for value in values}.values())
