"""Flows of CrewAI: the methods with what their bodies run, connected by triggers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from guardagent.frameworks.crewai.extractor.methods import FlowMethod, MethodRegion
from guardagent.frameworks.crewai.extractor.objects import CrewReader
from guardagent.frameworks.crewai.extractor.triggers import Triggers, condition_text, conjuncts
from guardagent.workflow.extraction.objects import private_attribute
from guardagent.workflow.extraction.regions import Assembly, Region, RegionExit
from guardagent.workflow.model.graph import EDGES, EdgeKind
from guardagent.workflow.python_source.values import CallResult


def definition_of(flow: Any) -> Any:
    """CrewAI's own definition of the methods of a flow."""
    if isinstance(flow, CallResult):
        return private_attribute(flow.callee, "flow_definition", "crewai")()
    return private_attribute(flow, "_definition", "crewai")  # the class has no definition of a flow declared in YAML


def flow_region(assembly: Assembly, reader: CrewReader, flow: Any, within: tuple[str, ...]) -> Region:
    """The region of a flow."""
    definitions = definition_of(flow).methods
    named = [FlowMethod(assembly, reader, flow, name, definitions, within, flow_region) for name in definitions]
    methods = [one.describe() for one in named]
    triggers = Triggers(part.method for part in methods)
    by_name = {part.method.name: part.region for part in methods}
    _connect(assembly, triggers, by_name)
    for part in methods:
        _note_method(assembly, triggers, part)
    for name, several in triggers.merged_listeners.items():
        assembly.note(f"{name!r} runs once, for the first of {', '.join(map(repr, several))} only")
    kind: EdgeKind = "parallel" if len(triggers.starts) > 1 else "direct"
    entries = [replace(entry, kind=kind) for name in triggers.starts for entry in by_name[name].entries]
    exits = [leave for part in methods for leave in _ends(triggers, part)]
    nodes = frozenset[str]().union(*(part.region.nodes for part in methods))
    return Region(tuple(entries), tuple(exits), nodes, empty=not entries)


def _connect(assembly: Assembly, triggers: Triggers, regions: dict[str, Region]) -> None:
    for one in triggers.edges:
        entries = regions[one.target].entries
        if one.label is None:
            several = triggers.direct_listeners(one.source)
            in_parallel = len(several) > 1 and one.target in several
            entries = tuple(replace(entry, kind="parallel" if in_parallel else entry.kind) for entry in entries)
            assembly.connect(regions[one.source].exits, entries)
        else:
            assembly.connect([_labelled(leave, one.label) for leave in regions[one.source].exits], entries)


def _labelled(leave: RegionExit, label: str) -> RegionExit:
    return replace(leave, condition=label, conditional=True)


def _note_method(assembly: Assembly, triggers: Triggers, part: MethodRegion) -> None:
    """Marks what a method waits for, and notes if its labels are unknown."""
    for entry in part.region.entries:
        awaited = [_awaited_source(triggers, one) for one in conjuncts(part.method.listen)]
        if awaited:
            assembly.join(entry.node, awaited)
    if part.method.is_open:
        for node in {leave.node for leave in part.region.exits}:
            assembly.mark_unknown(node, EDGES, f"the result of {part.method.name!r} is unknown; any label is assumed")


def _awaited_source(triggers: Triggers, condition: Any) -> str:
    """The source of an event: the method that completes or emits it, or the condition as text."""
    if not isinstance(condition, str):
        return condition_text(condition)
    sources = {source for source, _ in triggers.sources(condition)}
    return sources.pop() if len(sources) == 1 else condition


def _ends(triggers: Triggers, part: MethodRegion) -> list[RegionExit]:
    """The exits of a flow after a method, where nothing is sure to follow."""
    method, exits = part.method, part.region.exits
    completes = triggers.continues(method.name, method.name)
    if not method.router:
        waited_for = any(one.source == method.name for one in triggers.edges)
        vain = [replace(one, condition="the other awaited event does not happen", conditional=True) for one in exits]
        return [] if completes else vain if waited_for else list(exits)
    labels = [label for label in method.labels if not completes and not triggers.continues(method.name, label)]
    found = [_labelled(leave, label) for label in labels for leave in exits]
    if not completes and (method.returns_none or method.is_open or not method.labels):
        found += [_labelled(leave, "no label") for leave in exits]
    return found
