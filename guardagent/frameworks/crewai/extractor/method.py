"""One method of a flow of CrewAI: what its body runs, what it returns, and whom it asks."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from types import FunctionType
from typing import Any

from guardagent.frameworks.crewai.extractor.body import BEGIN, Key, Step, Steps, steps_of
from guardagent.frameworks.crewai.extractor.crew import Tools, agent_tools, crew_region, tools_of
from guardagent.frameworks.crewai.extractor.declared import declared_steps, referred
from guardagent.frameworks.crewai.extractor.objects import OPEN, Listed, Reader, kinds_of
from guardagent.frameworks.crewai.extractor.triggers import Method, words
from guardagent.workflow.extraction.regions import Assembly, Region, RegionEntry, RegionExit
from guardagent.workflow.model.graph import NodeKind
from guardagent.workflow.python_source.evaluation.values import Arguments, CallResult, Sequence, Values, exactly
from guardagent.workflow.python_source.functions.bodies import ReadableFunction, definition, summarize
from guardagent.workflow.python_source.functions.opaque_calls import RUN_METHODS, foreign

MOST_FLOWS = 5
_MISSING: Any = object()

FlowRegion = Callable[[Assembly, Reader, Any, tuple[str, ...]], Region]


@dataclass(frozen=True)
class Part:
    """A method, with what it adds to the graph."""

    method: Method
    region: Region


class Described:
    """One method of a flow: what it emits, and what it adds to the graph."""

    def __init__(
        self, assembly: Assembly, reader: Reader, flow: Any, name: str, told: Any, within: tuple[str, ...],
        flows: FlowRegion,
    ) -> None:  # fmt: skip
        self.assembly, self.reader, self.flow, self.name, self.told = assembly, reader, flow, name, told
        self.within, self._flows = within, flows
        self.function = _function(flow, name, told)
        self.asked = told.human_feedback is not None

    def part(self) -> Part:
        steps = steps_of(self.reader, self.function, self.flow) if self.function else declared_steps(self.told.do)
        if not steps.known:
            self.assembly.note(f"the code of {self.name} is not to be had: what it runs is not known")
        node = self.assembly.id(object(), self.name, self.within)
        region = self._region(node, steps)
        if unseen := self._unseen(known=steps.known):
            self.assembly.mark(node, tools_unknown=True)
            self.assembly.note(f"{self.name} may call tools that cannot be seen: {unseen}")
        return Part(self._method(), region)

    def _unseen(self, *, known: bool) -> str:
        """What the code runs that cannot be seen, or runs under another name."""
        if self.function is None:
            return "" if known else "its code is not to be had"
        body = summarize(self.function)
        renamed = [
            use.method
            for use in body.method_calls
            if not use.direct and use.method in RUN_METHODS and foreign(use.owner, ())
        ]
        return "; ".join([*body.opaque_calls, *(f"{name} by another name" for name in renamed)])

    # What it emits.

    def _method(self) -> Method:
        told = self.told
        said = (told.human_feedback.emit if self.asked else None) or told.emit or ()
        labels, is_open, none = tuple(map(str, said)), False, False
        if told.router and not (self.asked and told.human_feedback.emit):
            read = self._returned()
            known = tuple(_label(one) for one in read.known if _is_label(one))
            unclear = not read.complete or any(not _is_label(one) and one is not None for one in read.known)
            labels = tuple(dict.fromkeys((*labels, *known)))
            is_open, none = unclear and not said, None in read.known and not said
        return Method(self.name, told.start, told.listen, told.router, labels, is_open, none)

    def _returned(self) -> Values:
        if self.function is None:
            return Values(complete=False)
        readable = self.reader.function(self.function)
        if readable is None:
            return Values(complete=False)
        return self.reader.return_values(readable, Arguments((exactly(self.flow),), open=True))

    # What it is.

    def _region(self, node: str, steps: Steps) -> Region:
        calls_model = bool(steps.kinds & {"model", "agent"})
        rest = steps.without(lambda step: step.kind == "model" or (step.kind == "agent" and not self._tools(step)))
        if rest.kinds <= {"person"}:
            kind: NodeKind = "human" if rest.found or self.asked else self._quiet(calls_model=calls_model)
            return self._one(node, kind, asks=_asks(rest))
        if rest.kinds <= {"tool", "agent"}:
            return self._with_tools(node, rest)
        if all(step.kind == "crew" and step.thing is OPEN for step in rest.found.values()):
            self.assembly.note(f"which crew {self.name} runs cannot be known: verify it by itself")
            return self._one(node, "subgraph", widened=True, tools_unknown=True)
        return self._with_steps(node, rest)

    def _quiet(self, *, calls_model: bool) -> NodeKind:
        if self.told.router:
            return "router"
        return "llm" if calls_model else "passthrough"

    def _one(self, node: str, kind: NodeKind, tools: Tools | None = None, **metadata: Any) -> Region:
        file, line = definition(self.function) if self.function else (None, None)
        known = {"file": file, "line": line, "flow": self.within[-1] if self.within else None, **metadata}
        tools = tools or Tools()
        self.assembly.describe(
            node, kind, self.name, tools=tools.names, gated_tools=tools.gated, **known, **self._said()
        )
        return Region((RegionEntry(node),), (RegionExit(node),), frozenset({node}))

    def _said(self) -> dict[str, Any]:
        waits = self.told.listen if self.told.listen is not None else self.told.start
        return {
            "waits_for": words(waits) if waits is not None and not isinstance(waits, bool) else None,
            "persists": self.told.persist is not None and self.told.persist.enabled,
            "asks_for": self.told.human_feedback.message if self.asked else None,
        }

    def _with_tools(self, node: str, steps: Steps) -> Region:
        """A method that calls tools, itself or through agents; a person who gives feedback sees what came of it."""
        tools = Tools()
        for step in steps.found.values():
            tools |= self._tools(step)
        certain = steps.is_straight and steps.kinds == {"tool"}
        for where in tools.unknown:
            self.assembly.note(f"tools of {node} come from {where}: they are known only when it runs")
        region = self._one(
            node,
            "tool",
            tools,
            model_chooses=not certain,
            widened=bool(tools.unknown),
            tools_unknown=bool(tools.unknown),
        )
        return self._feedback(region) if self.asked else region

    def _tools(self, step: Step) -> Tools:
        if step.kind == "agent":
            return agent_tools(self.reader, step.thing)
        return tools_of(Listed((step.thing,)))

    def _feedback(self, region: Region) -> Region:
        node = self.assembly.id(object(), f"{self.name}/human_feedback", self.within)
        self.assembly.describe(node, "human", f"feedback on {self.name}", **self._said())
        self.assembly.connect(region.exits, [RegionEntry(node)])
        return Region(region.entries, (RegionExit(node),), region.nodes | {node})

    def _with_steps(self, node: str, steps: Steps) -> Region:
        """A method whose body runs crews or flows, or asks a person among other things: each has nodes of its own."""
        regions = {key: self._step(step) for key, step in steps.found.items()}
        steps = steps.without(lambda step: regions[_key_of(steps, step)].empty)
        last = self.told.router or self.asked
        kind: NodeKind = "human" if self.asked else "router" if self.told.router else "subgraph"
        own = self._one(node, kind)
        nodes = own.nodes.union(*(region.nodes for region in regions.values()))
        for one, other in steps.in_order:
            if one != BEGIN:
                branches = _branches(steps, one)
                exits = [replace(leave, conditional=leave.conditional or branches) for leave in regions[one].exits]
                self.assembly.connect(exits, _entries(steps, one, other, regions[other]))
        inner = Region(
            tuple(entry for key in _firsts(steps) for entry in _entries(steps, BEGIN, key, regions[key])),
            tuple(_last(leave, steps, key) for key in steps.last for leave in regions[key].exits),
            empty=BEGIN in steps.ends,
        )
        return self._around(own, inner, nodes, last=last, branches=_branches(steps, BEGIN))

    def _around(self, own: Region, inner: Region, nodes: frozenset[str], *, last: bool, branches: bool) -> Region:
        """The method's own node before what its body runs; after it, where it decides or asks in the end."""
        if last:
            self.assembly.connect(inner.exits, own.entries)
            return Region((*inner.entries, *(own.entries if inner.empty else ())), own.exits, nodes)
        self.assembly.connect([replace(leave, conditional=branches) for leave in own.exits], inner.entries)
        skipped = tuple(replace(leave, conditional=True) for leave in own.exits) if inner.empty else ()
        return Region(own.entries, (*inner.exits, *skipped), nodes)

    def _step(self, step: Step) -> Region:
        """The nodes of one step of a body."""
        within = (*self.within, self.name)
        if step.kind == "crew" and step.thing is not OPEN:
            return crew_region(self.assembly, self.reader, step.thing, within)
        if step.kind == "task":
            alone = CallResult(None, Arguments(keywords={"tasks": exactly(Sequence((exactly(step.thing),)))}))
            return crew_region(self.assembly, self.reader, alone, within)
        if step.kind == "flow" and len(within) < MOST_FLOWS:
            return self._flows(self.assembly, self.reader, step.thing, within)
        if step.kind in {"tool", "agent"}:
            tools = self._tools(step)
            node = self._inner(tools.names[0] if len(tools.names) == 1 else step.kind)
            self.assembly.describe(
                node, "tool", node, tools=tools.names, gated_tools=tools.gated, model_chooses=step.kind == "agent",
                **_unsure(tools),
            )  # fmt: skip
        elif step.kind == "person":
            node = self.assembly.describe(self._inner("ask"), "human", f"{self.name} asks a person")
        else:
            node = self.assembly.describe(
                self._inner(step.kind), "subgraph", self.name, widened=True, tools_unknown=True
            )
            self.assembly.note(f"which {step.kind} {self.name} runs cannot be known: verify it by itself")
        return Region((RegionEntry(node),), (RegionExit(node),), frozenset({node}))

    def _inner(self, what: str) -> str:
        return self.assembly.id(object(), f"{self.name}/{what}", self.within)


def _unsure(tools: Tools) -> dict[str, bool]:
    return {"widened": bool(tools.unknown), "tools_unknown": bool(tools.unknown)}


def _last(leave: RegionExit, steps: Steps, key: Key) -> RegionExit:
    """A way out of a body's step: conditional where other steps can follow it."""
    return replace(leave, conditional=leave.conditional or any(one == key for one, _ in steps.links))


def _branches(steps: Steps, key: Key) -> bool:
    """Whether the body can go on in several ways after a step; what is begun together is one way."""
    ways = {None if link in steps.beside else link for link in steps.links if link[0] == key}
    return len(ways) + (key in steps.ends) > 1


def _entries(steps: Steps, one: Key, other: Key, region: Region) -> tuple[RegionEntry, ...]:
    """The ways into a step after another one."""
    together = (one, other) in steps.beside
    return tuple(replace(entry, kind="parallel") if together else entry for entry in region.entries)


def _firsts(steps: Steps) -> list[Key]:
    return [other for one, other in steps.in_order if one == BEGIN]


def _key_of(steps: Steps, step: Step) -> Key:
    return next(key for key, one in steps.found.items() if one is step)


def _asks(steps: Steps) -> str | None:
    """Whether a body asks a person whatever way it takes, or sometimes."""
    if not steps.found:
        return None
    return "always" if steps.always("person") else "sometimes"


def _is_label(one: object) -> bool:
    return isinstance(one, str | int | float | Enum)


def _label(one: object) -> str:
    return str(one.value if isinstance(one, Enum) else one)


def _function(flow: Any, name: str, told: Any) -> FunctionType | ReadableFunction | None:
    """The function of a method; None where the flow was declared without one."""
    if getattr(told.do, "call", None) != "code":
        return None
    kind = kinds_of(flow)[0]
    found = inspect.getattr_static(kind, name, _MISSING)
    if found is _MISSING:
        declared = getattr(kind, "model_fields", {}).get(name)  # CrewAI keeps a method there that is named like a field
        found = getattr(declared, "default", _MISSING)
    while hasattr(type(found), "unwrap"):
        found = found.unwrap()
    if isinstance(found, ReadableFunction):
        return found
    if not isinstance(found, FunctionType):
        found = referred(str(told.do.ref))
    return inspect.unwrap(found) if isinstance(found, FunctionType) else None
