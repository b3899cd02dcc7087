"""The triggers of a flow: methods complete, routers emit labels, listeners wait for any or all of several events."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

Condition = str | Mapping[str, Any]


@dataclass(frozen=True)
class Method:
    """A method of a flow, with its triggers.

    Attributes:
        start: whether it starts the flow: always, never, or under a condition.
        listen: the condition that it waits for.
        router: it returns a label.
        labels: the labels that it can return.
        is_open: it can return others.
        returns_none: it can return None, and then emits nothing.
    """

    name: str
    start: bool | Condition | None = None
    listen: Condition | None = None
    router: bool = False
    labels: tuple[str, ...] = ()
    is_open: bool = False
    returns_none: bool = False

    @property
    def conditions(self) -> list[Condition]:
        """All conditions under which it runs."""
        begins = [] if self.start is None or isinstance(self.start, bool) else [self.start]
        return [*([self.listen] if self.listen is not None else []), *begins]


@dataclass(frozen=True)
class TriggerEdge:
    """An edge between methods: on completion of the source, or on a label that it emits."""

    source: str
    target: str
    label: str | None = None


def events(condition: Condition) -> Iterator[str]:
    """The names in a condition."""
    if isinstance(condition, str):
        yield condition
        return
    for part in _parts(condition):
        yield from events(part)


def is_satisfied(condition: Condition, known: Iterable[str]) -> bool:
    """Whether a condition holds once some events have happened."""
    seen = set(known)
    if isinstance(condition, str):
        return condition in seen
    holds = (is_satisfied(part, seen) for part in _parts(condition))
    return all(holds) if "and" in condition else any(holds)


def _parts(condition: Mapping[str, Any]) -> list[Condition]:
    return list(condition["and"] if "and" in condition else condition["or"])


def condition_text(condition: Condition) -> str:
    """A condition as text."""
    if isinstance(condition, str):
        return condition
    sign = "and_" if "and" in condition else "or_"
    return f"{sign}({', '.join(condition_text(part) for part in _parts(condition))})"


def conjuncts(condition: Condition | None) -> list[Condition]:
    """The conjuncts of a condition; empty if it is not a conjunction."""
    if condition is None or isinstance(condition, str) or "and" not in condition:
        return []
    parts = _parts(condition)
    return [conjunct for part in parts for conjunct in (conjuncts(part) or [part])]


class Triggers:
    """The methods of a flow, and the edges between them."""

    def __init__(self, methods: Iterable[Method]) -> None:
        self.methods = {method.name: method for method in methods}

    @cached_property
    def starts(self) -> list[str]:
        """The methods that start a run: unconditional ones, else all with a start condition."""
        always = [name for name, method in self.methods.items() if method.start is True]
        return always or [name for name, method in self.methods.items() if method.start]

    @cached_property
    def label_events(self) -> frozenset[str]:
        """The names in conditions that are labels, not methods."""
        named = {
            event for method in self.methods.values() for condition in method.conditions for event in events(condition)
        }
        return frozenset(named - self.methods.keys())

    def emitted(self, method: Method) -> tuple[str, ...]:
        """The labels that a method can emit; all awaited labels if they are unknown."""
        if not method.router:
            return ()
        return tuple(dict.fromkeys((*method.labels, *(sorted(self.label_events) if method.is_open else ()))))

    def sources(self, event: str) -> list[tuple[str, str | None]]:
        """The methods after which an event can happen, each with the label."""
        completed = [(event, None)] if event in self.methods else []
        return [*completed, *((name, event) for name, method in self.methods.items() if event in self.emitted(method))]

    @cached_property
    def edges(self) -> list[TriggerEdge]:
        """All edges between methods."""
        trigger_edges: dict[TriggerEdge, None] = {}
        for name, method in self.methods.items():
            for condition in method.conditions:
                for event in events(condition):
                    for source, label in self.sources(event):
                        trigger_edges[TriggerEdge(source, name, label)] = None
        return list(trigger_edges)

    def direct_listeners(self, event: str) -> list[str]:
        """The methods that an event alone triggers."""
        return [
            name
            for name, method in self.methods.items()
            if method.listen is not None and is_satisfied(method.listen, [event])
        ]

    def continues(self, source: str, event: str) -> bool:
        """Whether a method is certain to follow when an event happens after a method.

        A listener for several events follows if the others are certain to happen and have not been consumed. A start
        with a condition does not count: CrewAI 1.15 checks it only for labels of routers that are not starts.
        """
        if self.direct_listeners(event):
            return True
        known = frozenset() if self._can_repeat(source, event) else self._certain(source) | {event}
        if any(
            is_satisfied(condition, known) and self._requires(condition, event) for condition in self._listen_conditions
        ):
            return True
        if event == source or self.methods[source].start:
            return False
        starts = (method.start for method in self.methods.values())
        return any(
            is_satisfied(start, [event]) for start in starts if start is not None and not isinstance(start, bool)
        )

    def _requires(self, condition: Condition, event: str) -> bool:
        """Whether a condition cannot hold without an event."""
        return not is_satisfied(
            condition,
            {other_event for other_event in events(condition) if other_event != event and self.sources(other_event)},
        )

    @property
    def _listen_conditions(self) -> list[Condition]:
        return [method.listen for method in self.methods.values() if method.listen is not None]

    def _can_repeat(self, source: str, event: str) -> bool:
        """Whether a method can repeat an event: by a loop, a parallel method, or a second run."""
        over = (self._predecessors[source] or frozenset()) - self._in_loops
        beside = (other for method, other in self._concurrent if method == source and other not in over)
        if source in self._following(source, event) or any(source in self._reachable[other] for other in beside):
            return True
        ways = [edge for edge in self.edges if edge.target == source]
        pairs = itertools.combinations(ways, 2)
        twice = any(self._compatible(*pair) and not self._joins_both(source, *pair) for pair in pairs)
        return twice or (source in self.starts and bool(ways))

    def _joins_both(self, name: str, trigger_edge: TriggerEdge, other: TriggerEdge) -> bool:
        """Whether the target of two edges waits for both."""
        conditions = self.methods[name].conditions
        events = [way.label or way.source for way in (trigger_edge, other)]
        return (
            len(conditions) == 1
            and events[0] != events[1]
            and all(self._requires(conditions[0], way) for way in events)
        )

    def _following(self, source: str, event: str) -> set[str]:
        """The methods that can run after an event."""
        then = (
            edge for edge in self.edges if edge.source == source and (event == source or edge.label in (None, event))
        )
        return set().union(*(self._reachable[edge.target] for edge in then))

    def _compatible(self, trigger_edge: TriggerEdge, other: TriggerEdge) -> bool:
        """Whether two edges can both occur in one run."""
        if trigger_edge.source == other.source:
            return trigger_edge.label != other.label and None in (trigger_edge.label, other.label)
        return (
            (trigger_edge.source, other.source) in self._concurrent
            or other.source in self._following(trigger_edge.source, trigger_edge.label or trigger_edge.source)
            or trigger_edge.source in self._following(other.source, other.label or other.source)
        )

    @cached_property
    def _in_loops(self) -> frozenset[str]:
        """The methods on a cycle."""
        return frozenset(
            name for name in self.methods if name in self._following(name, name) or self._label_cycle(name)
        )

    def _label_cycle(self, name: str) -> bool:
        return any(name in self._following(name, label) for label in self.emitted(self.methods[name]))

    @cached_property
    def _reachable(self) -> dict[str, set[str]]:
        """The methods reachable from each method, itself included."""
        reachable = {name: {name} for name in self.methods}
        grown = True
        while grown:
            before = sum(map(len, reachable.values()))
            for edge in self.edges:
                reachable[edge.source] |= reachable[edge.target]
            grown = sum(map(len, reachable.values())) > before
        return reachable

    # A listener for any of several events runs once for them.

    @cached_property
    def merged_listeners(self) -> dict[str, list[str]]:
        """The listeners for any of several events that can occur together in a run, with the sources.

        CrewAI runs them for the first event only. (A label runs them again.)
        """
        merged_listeners: dict[str, list[str]] = {}
        for name, method in self.methods.items():
            if method.router or method.listen is None or isinstance(method.listen, str) or "and" in method.listen:
                continue
            ways = [edge for edge in self.edges if edge.target == name]
            several = [
                pair
                for pair in itertools.combinations(ways, 2)
                if None in [w.label for w in pair] and self._compatible(*pair)
            ]
            if several:
                merged_listeners[name] = sorted({edge.source for pair in several for edge in pair})
        return merged_listeners

    @cached_property
    def _concurrent(self) -> set[tuple[str, str]]:
        """The pairs of methods that can run concurrently."""
        pairs = {(start, other) for start in self.starts for other in self.starts if start != other}
        for first in self.edges:
            for second in self.edges:
                together = first.label is None or second.label in (None, first.label)
                if first.source == second.source and first.target != second.target and together:
                    pairs |= {(first.target, second.target), (second.target, first.target)}
        pending = list(pairs)
        while pending:
            method, other = pending.pop()
            for step in (step for step in self.edges if step.source == method):
                for pair in ((step.target, other), (other, step.target)):
                    if pair not in pairs:
                        pairs.add(pair)
                        pending.append(pair)
        return pairs

    # Events that are certain in a run.

    def _certain(self, name: str) -> frozenset[str]:
        """The events of every run in which a method runs."""
        known = {*(self._predecessors[name] or ()), *self.starts}
        grown = True
        while grown:
            more = {
                name for name, method in self.methods.items() if method.listen and is_satisfied(method.listen, known)
            }
            more |= {label for key in known & self.methods.keys() for label in self._only_label(self.methods[key])}
            grown = not more <= known
            known |= more
        return frozenset(known)

    @staticmethod
    def _only_label(method: Method) -> tuple[str, ...]:
        certain = method.router and not method.is_open and not method.returns_none and len(method.labels) == 1
        return method.labels if certain else ()

    @cached_property
    def _predecessors(self) -> dict[str, frozenset[str] | None]:
        """The events certain to have happened once a method has run; None if it never runs."""
        predecessors: dict[str, frozenset[str] | None] = dict.fromkeys(self.methods)
        changed = True
        while changed:
            changed = False
            for name in self.methods:
                now = self._required(name, predecessors)
                if now != predecessors[name]:
                    predecessors[name], changed = now, True
        return predecessors

    def _required(self, name: str, required: Mapping[str, frozenset[str] | None]) -> frozenset[str] | None:
        method = self.methods[name]
        ways = [self._before_condition(condition, required) for condition in method.conditions]
        if name in self.starts:
            ways.append(frozenset())
        known = _common_events(ways)
        return None if known is None else known | {name}

    def _before_condition(
        self, condition: Condition, required: Mapping[str, frozenset[str] | None]
    ) -> frozenset[str] | None:
        """The events certain to have happened if a condition holds; None if it never holds."""
        if isinstance(condition, str):
            before = _common_events([required[source] for source, _ in self.sources(condition)])
            return None if before is None else before | {condition}
        parts = [self._before_condition(part, required) for part in _parts(condition)]
        if "or" in condition:
            return _common_events(parts)
        return None if None in parts else frozenset().union(*(part for part in parts if part is not None))


def _common_events(ways: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """The events common to all possible alternatives; None if there are none."""
    possible = [way for way in ways if way is not None]
    return frozenset.intersection(*possible) if possible else None
