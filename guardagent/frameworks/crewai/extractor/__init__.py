"""Extracts the workflow graph of crews, flows, classes with `@CrewBase`, and single agents of CrewAI.

A target is an object, or the class of a flow or of a crew with `@CrewBase`; no class is instantiated, and nothing runs.
The graph of a flow has its methods, with what their bodies run, connected by triggers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.crewai.extractor.crew import agent_tools, crew_region, role
from guardagent.frameworks.crewai.extractor.methods import FlowMethod, MethodRegion
from guardagent.frameworks.crewai.extractor.objects import CREWAI, CrewReader, is_crew_base, is_kind
from guardagent.frameworks.crewai.extractor.triggers import Triggers, condition_text, conjuncts
from guardagent.frameworks.crewai.package import FRAMEWORK
from guardagent.workflow.extraction import from_module
from guardagent.workflow.extraction.objects import private_attribute
from guardagent.workflow.extraction.regions import Assembly, Region, RegionEntry, RegionExit
from guardagent.workflow.model.graph import EDGES, EdgeKind, Graph
from guardagent.workflow.python_source.values import Arguments, CallResult, Sequence, Stub, exactly


def definition_of(flow: Any) -> Any:
    """CrewAI's own definition of the methods of a flow."""
    if isinstance(flow, CallResult):
        return private_attribute(flow.callee, "flow_definition", "crewai")()
    return private_attribute(flow, "_definition", "crewai")  # the class has no definition of a flow declared in YAML


def flow_region(assembly: Assembly, reader: CrewReader, flow: Any, within: tuple[str, ...]) -> Region:
    """The region of a flow."""
    definitions = definition_of(flow).methods
    named = [FlowMethod(assembly, reader, flow, name, definitions, within, flow_region) for name in definitions]
    methods = [flow_method.describe() for flow_method in named]
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
    for edge in triggers.edges:
        entries = regions[edge.target].entries
        if edge.label is None:
            several = triggers.direct_listeners(edge.source)
            in_parallel = len(several) > 1 and edge.target in several
            entries = tuple(replace(entry, kind="parallel" if in_parallel else entry.kind) for entry in entries)
            assembly.connect(regions[edge.source].exits, entries)
        else:
            assembly.connect([_labelled(leave, edge.label) for leave in regions[edge.source].exits], entries)


def _labelled(leave: RegionExit, label: str) -> RegionExit:
    return replace(leave, condition=label, conditional=True)


def _note_method(assembly: Assembly, triggers: Triggers, part: MethodRegion) -> None:
    """Marks what a method waits for, and notes if its labels are unknown."""
    for entry in part.region.entries:
        awaited = [_awaited_source(triggers, conjunct) for conjunct in conjuncts(part.method.listen)]
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
        waited_for = any(edge.source == method.name for edge in triggers.edges)
        vain = [
            replace(leave, condition="the other awaited event does not happen", conditional=True) for leave in exits
        ]
        return [] if completes else vain if waited_for else list(exits)
    labels = [label for label in method.labels if not completes and not triggers.continues(method.name, label)]
    ends = [_labelled(leave, label) for label in labels for leave in exits]
    if not completes and (method.returns_none or method.is_open or not method.labels):
        ends += [_labelled(leave, "no label") for leave in exits]
    return ends


def recognises(target: object) -> bool:
    return from_module(target, CREWAI) or is_crew_base(type(target)) or is_crew_base(target)


def extract(target: Any, name: str, reader: CrewReader | None = None) -> Graph:
    """The graph of a crew, a flow, a class of either, a task or an agent.

    Args:
        target: the object or class.
        name: the name of the graph.
        reader: evaluates the code of methods that are not live functions.

    Raises:
        InputError: it is none of these, or an unsupported version of CrewAI created it.
    """
    assembly = Assembly()
    created = CallResult(target, Arguments()) if isinstance(target, type) else target
    module = None if isinstance(target, Stub) else getattr(target, "__module__", None)
    package = (module or "").partition(".")[0]
    whole = _region(assembly, reader or CrewReader(package if package != CREWAI else ""), created)
    return assembly.graph(name, FRAMEWORK, whole)


def _region(assembly: Assembly, reader: CrewReader, target: Any) -> Region:
    if is_kind(target, "Flow"):
        return flow_region(assembly, reader, target, ())
    if is_kind(target, "Crew"):
        return crew_region(assembly, reader, target, ())
    if is_kind(target, "Task"):
        return crew_region(assembly, reader, _crew_of(target), ())
    if is_kind(target, "BaseAgent", "LiteAgent"):
        return _agent(assembly, reader, target)
    kind: Any = target.callee if isinstance(target, CallResult) else type(target)
    if is_crew_base(kind):
        created = crew_of(reader, CallResult(kind, Arguments()), f"{kind.__module__}.{kind.__qualname__}")
        return crew_region(assembly, reader, created, ())
    raise InputError(f"a {kind.__name__} of CrewAI is not a workflow; expected a Crew, a Flow, an Agent or a Task")


def _crew_of(task: Any) -> CallResult:
    return CallResult(None, Arguments(keywords={"tasks": exactly(Sequence((exactly(task),)))}))


def crew_of(reader: CrewReader, created: Any, name: str) -> Any:
    """The crew that an object of a class with `@CrewBase` would create.

    Raises:
        InputError: the crew is unknown.
    """
    for method in reader.attribute(created, "crew").known:
        for crew in reader.call(method, Arguments()).known:
            if is_kind(crew, "Crew"):
                return crew
    raise InputError(
        f"{name}: expected a method 'crew' with the decorator '@crew' that returns 'Crew(...)'; "
        "name an existing crew instead, as 'module:attribute'"
    )


def _agent(assembly: Assembly, reader: CrewReader, agent: Any) -> Region:
    tools = agent_tools(reader, agent)
    name = role(agent) or "agent"
    node = assembly.id(agent, name)
    assembly.describe(
        node, "tool" if tools else "llm", name, tools=tools.names, gated_tools=tools.gated, model_chooses=bool(tools),
        **tools.marks(),
    )  # fmt: skip
    return Region((RegionEntry(node),), (RegionExit(node),), frozenset({node}))
