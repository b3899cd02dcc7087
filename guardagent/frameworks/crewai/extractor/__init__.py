"""Extracts the workflow graph of crews, flows, classes with `@CrewBase`, and single agents of CrewAI.

A target is an object, or the class of a flow or of a crew with `@CrewBase`; no class is instantiated, and nothing runs.
"""

from __future__ import annotations

from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.crewai.extractor.crew import agent_tools, crew_region, role
from guardagent.frameworks.crewai.extractor.flow import flow_region
from guardagent.frameworks.crewai.extractor.objects import CREWAI, CrewReader, is_crew_base, is_kind
from guardagent.frameworks.crewai.package import FRAMEWORK
from guardagent.workflow.extraction import from_module
from guardagent.workflow.extraction.regions import Assembly, Region, RegionEntry, RegionExit
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.python_source.values import Arguments, CallResult, Sequence, Stub, exactly


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
