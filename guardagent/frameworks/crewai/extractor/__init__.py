"""Extracts the workflow graph of crews, flows, classes with `@CrewBase`, and single agents of CrewAI.

A target is an object, or the class of a flow or of a crew with `@CrewBase`; no class is instantiated, and nothing runs.
The graph of a flow has its methods, with what their bodies run, connected by triggers. A flow that is declared in YAML
or JSON rather than as code has actions instead of bodies.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import FunctionType
from typing import Any

from guardagent.errors import InputError
from guardagent.frameworks.crewai.extractor.crew import CrewTools, agent_tools, crew_region, role, tools_of
from guardagent.frameworks.crewai.extractor.objects import (
    BEGIN,
    CREWAI,
    OPEN,
    BodyStep,
    BodySteps,
    CrewReader,
    Key,
    KnownElements,
    is_crew_base,
    is_kind,
    kinds_of,
    steps_of,
)
from guardagent.frameworks.crewai.extractor.triggers import Method, Triggers, condition_text, conjuncts, events
from guardagent.frameworks.crewai.package import FRAMEWORK
from guardagent.workflow.extraction import (
    Assembly,
    Region,
    RegionEntry,
    RegionExit,
    from_module,
    private_attribute,
    single,
)
from guardagent.workflow.model.graph import EDGES, TOOLS, EdgeKind, Graph, NodeKind, Unseen, mark
from guardagent.workflow.python_source.bodies import ReadableFunction, definition, summarize
from guardagent.workflow.python_source.calls import RUN_METHODS, foreign
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    CallResult,
    Sequence,
    Stub,
    Values,
    exactly,
)


def action_steps(action: Any) -> BodySteps:
    """The steps of a declared action."""
    steps = BodySteps()
    before: Key = BEGIN
    for number, action_part in enumerate(_flat(action)):
        if (step := _action_step(action_part)) is not None:
            key: Key = ("declared", number)
            steps.by_key[key] = step
            steps.links.add((before, key))
            before = key
    steps.ends = {before}
    if getattr(action, "call", "") == "each" and before != BEGIN:  # for no item, one, or many
        steps.links.add((before, ("declared", 0) if ("declared", 0) in steps.by_key else before))
        steps.ends.add(BEGIN)
    return steps


def _flat(action: Any) -> Iterable[Any]:
    return [step.action for step in action.do] if action.call == "each" else [action]


def _action_step(action: Any) -> BodyStep | None:
    if action.call == "tool":
        return BodyStep("tool", _tool_of(action.ref), 0)
    if action.call == "agent":
        return BodyStep("agent", _created(_agent_fields(action.with_)), 0)
    if action.call == "crew":
        return BodyStep("crew", OPEN if action.with_ is None else _crew_of(action.with_), 0)
    return None


def _tool_of(ref: Any) -> Any:
    """The tool of a reference, named by its class if that is loaded."""
    if not isinstance(ref, str):
        return OPEN
    loaded = resolve_reference(ref) if ":" in ref else None
    if isinstance(loaded, type):
        return CallResult(loaded, Arguments())
    return _created({"name": ref.rpartition(":")[2].rpartition("/")[2].partition("@")[0]})


def _agent_fields(definition: Any) -> dict[str, Any]:
    tools = [_tool_of(tool) for tool in definition.tools or ()]
    return {
        "role": definition.role or "", "tools": tools, "allow_delegation": bool(definition.allow_delegation),
        "mcps": definition.mcps, "apps": definition.apps,
    }  # fmt: skip


def _crew_of(definition: Any) -> CallResult:
    agents = {name: _created(_agent_fields(agent)) for name, agent in definition.agents.items()}
    tasks: list[CallResult] = []
    for task in definition.tasks:
        more = dict(task.model_extra or {})
        more["tools"] = [_tool_of(tool) for tool in more.get("tools") or ()]
        tasks.append(
            _created({**more, "name": task.name, "description": task.description, "agent": agents.get(task.agent)})
        )
    rest = dict(definition.model_extra or {})
    manager = agents.get(definition.manager_agent) if isinstance(definition.manager_agent, str) else None
    return _created({**rest, "agents": list(agents.values()), "tasks": tasks, "manager_agent": manager})


def _created(fields: dict[str, Any]) -> CallResult:
    """An object with some fields, as code would create it."""
    arguments = {
        name: exactly(Sequence(tuple(map(exactly, value))) if isinstance(value, list) else value)
        for name, value in fields.items()
        if value is not None
    }
    return CallResult(None, Arguments(keywords=arguments))


def resolve_reference(ref: str) -> Any:
    """The object of a reference `module:name`; None if the module is not loaded."""
    module, _, path = ref.partition(":")
    owner: Any = sys.modules.get(module)
    for name in path.split("."):
        owner = inspect.getattr_static(owner, name, None) if owner is not None else None
    while hasattr(type(owner), "unwrap"):
        owner = owner.unwrap()
    return owner


# --- methods

MOST_FLOWS = 5
_MISSING: Any = object()


@dataclass(frozen=True)
class MethodRegion:
    """A method, with its region."""

    method: Method
    region: Region


class FlowMethod:
    """Builds the region of one method of a flow, and the labels that it emits."""

    def __init__(
        self, assembly: Assembly, reader: CrewReader, flow: Any, name: str, definitions: Mapping[str, Any],
        within: tuple[str, ...],
    ) -> None:  # fmt: skip
        definition = definitions[name]
        self.assembly, self.reader, self.flow, self.name, self.definition = assembly, reader, flow, name, definition
        self.within, self._definitions = within, definitions
        self._node = assembly.id(object(), name, within)
        self.function = _function(flow, name, definition)
        self.has_feedback = definition.human_feedback is not None

    def describe(self) -> MethodRegion:
        steps = steps_of(self.reader, self.function, self.flow) if self.function else action_steps(self.definition.do)
        if not steps.known:
            self.assembly.note(f"the code of {self.name!r} is missing; what it runs is unknown")
        region = self._region(self._node, steps)
        if unseen := self._unseen(known=steps.known):
            self.assembly.mark_unknown(self._node, TOOLS, *unseen)
        return MethodRegion(self._method(), region)

    def _unseen(self, *, known: bool) -> list[Unseen]:
        """Returns what the code runs that cannot be seen, or under another name."""
        if self.function is None:
            return [] if known else [Unseen("its code is missing")]
        body = summarize(self.function)
        renamed = [
            use.method
            for use in body.method_calls
            if not use.direct and use.method in RUN_METHODS and foreign(use.owner, ())
        ]
        return [*body.opaque_calls, *(Unseen(f"{name} by another name") for name in renamed)]

    # Labels.

    def _method(self) -> Method:
        definition = self.definition
        declared = (definition.human_feedback.emit if self.has_feedback else None) or definition.emit or ()
        labels, is_open, none = tuple(map(str, declared)), False, False
        if definition.router and not (self.has_feedback and definition.human_feedback.emit):
            returned = self._returned(self.name, frozenset())
            known = tuple(_label(value) for value in returned.known if _is_label(value))
            unclear = not returned.complete or any(
                not _is_label(value) and value is not None for value in returned.known
            )
            labels = tuple(dict.fromkeys((*labels, *known)))
            is_open, none = unclear and not declared, None in returned.known and not declared
        return Method(self.name, definition.start, definition.listen, definition.router, labels, is_open, none)

    def _returned(self, name: str, inside: frozenset[str]) -> Values:
        """The values that a method returns; it is passed what the methods that it waits for return."""
        definition = self._definitions[name]
        function = _function(self.flow, name, definition)
        readable = self.reader.function(function) if function is not None else None
        if readable is None or name in inside or definition.human_feedback is not None:
            return UNKNOWN
        spec = getattr(readable.tree, "args", None)
        takes_result = spec is not None and len(spec.posonlyargs) + len(spec.args) > 1
        passed = (self._awaited(definition, inside | {name}),) if takes_result else ()
        return self.reader.return_values(readable, Arguments((exactly(self.flow), *passed), open=True))

    def _awaited(self, definition: Any, inside: frozenset[str]) -> Values:
        """The results of the methods that a method waits for; unknown if it waits for labels."""
        waits = [
            condition
            for condition in (definition.listen, definition.start)
            if condition is not None and not isinstance(condition, bool)
        ]
        names = {name for condition in waits for name in events(condition)}
        if not names or not names <= self._definitions.keys():
            return UNKNOWN
        values = NOTHING
        for name in sorted(names):
            values |= self._returned(name, inside)
        return values

    # The region.

    def _region(self, node: str, steps: BodySteps) -> Region:
        calls_model = bool(steps.kinds & {"model", "agent"})
        rest = steps.without(lambda step: step.kind == "model" or (step.kind == "agent" and not self._tools(step)))
        if rest.kinds <= {"person"}:
            kind: NodeKind = (
                "human" if rest.by_key or self.has_feedback else self._kind_without_steps(calls_model=calls_model)
            )
            return self._single_node(node, kind, asks=_asks(rest))
        if rest.kinds <= {"tool", "agent"}:
            return self._with_tools(node, rest)
        if all(step.kind == "crew" and step.target is OPEN for step in rest.by_key.values()):
            why = mark(f"the crew that {self.name!r} runs is unknown; verify it separately")
            return self._single_node(node, "subgraph", widened=why, tools_unknown=why)
        return self._with_steps(node, rest)

    def _kind_without_steps(self, *, calls_model: bool) -> NodeKind:
        if self.definition.router:
            return "router"
        return "llm" if calls_model else "passthrough"

    def _single_node(self, node: str, kind: NodeKind, tools: CrewTools | None = None, **metadata: Any) -> Region:
        file, line = definition(self.function) if self.function else (None, None)
        known = {"file": file, "line": line, "flow": self.within[-1] if self.within else None, **metadata}
        tools = tools or CrewTools()
        self.assembly.describe(
            node, kind, self.name, tools=tools.names, gated_tools=tools.gated, **known, **self._metadata()
        )
        return single(node)

    def _metadata(self) -> dict[str, Any]:
        waits = self.definition.listen if self.definition.listen is not None else self.definition.start
        return {
            "waits_for": condition_text(waits) if waits is not None and not isinstance(waits, bool) else None,
            "persists": self.definition.persist is not None and self.definition.persist.enabled,
            "asks_for": self.definition.human_feedback.message if self.has_feedback else None,
        }

    def _with_tools(self, node: str, steps: BodySteps) -> Region:
        """A method that calls tools, itself or by agents, perhaps followed by human feedback."""
        tools = CrewTools()
        for step in steps.by_key.values():
            tools |= self._tools(step)
        certain = steps.is_straight and steps.kinds == {"tool"}
        region = self._single_node(node, "tool", tools, model_chooses=not certain, **tools.marks())
        return self._add_feedback(region) if self.has_feedback else region

    def _tools(self, step: BodyStep) -> CrewTools:
        if step.kind == "agent":
            return agent_tools(self.reader, step.target)
        return tools_of(KnownElements((step.target,)))

    def _add_feedback(self, region: Region) -> Region:
        node = self.assembly.id(object(), f"{self.name}/human_feedback", self.within)
        self.assembly.describe(node, "human", f"feedback on {self.name}", **self._metadata())
        self.assembly.connect(region.exits, [RegionEntry(node)])
        return Region(region.entries, (RegionExit(node),), region.nodes | {node})

    def _with_steps(self, node: str, steps: BodySteps) -> Region:
        """A method whose body runs crews or flows, or mixes questions with other steps: each step has its own nodes."""
        regions = {key: self._step(step) for key, step in steps.by_key.items()}
        steps = steps.without(lambda step: regions[_key_of(steps, step)].empty)
        last = self.definition.router or self.has_feedback
        kind: NodeKind = "human" if self.has_feedback else "router" if self.definition.router else "subgraph"
        own = self._single_node(node, kind)
        nodes = own.nodes.union(*(region.nodes for region in regions.values()))
        for link, other in steps.ordered_links:
            if link != BEGIN:
                branches = _branches(steps, link)
                exits = [replace(leave, conditional=leave.conditional or branches) for leave in regions[link].exits]
                self.assembly.connect(exits, _entries(steps, link, other, regions[other]))
        inner = Region(
            tuple(entry for key in _first_steps(steps) for entry in _entries(steps, BEGIN, key, regions[key])),
            tuple(_last(leave, steps, key) for key in steps.last for leave in regions[key].exits),
            empty=BEGIN in steps.ends,
        )
        return self._wrap(own, inner, nodes, last=last, branches=_branches(steps, BEGIN))

    def _wrap(self, own: Region, inner: Region, nodes: frozenset[str], *, last: bool, branches: bool) -> Region:
        """Connects the method's own node before its steps; after them if it routes or asks for feedback."""
        if last:
            self.assembly.connect(inner.exits, own.entries)
            return Region((*inner.entries, *(own.entries if inner.empty else ())), own.exits, nodes)
        self.assembly.connect([replace(leave, conditional=branches) for leave in own.exits], inner.entries)
        skipped = tuple(replace(leave, conditional=True) for leave in own.exits) if inner.empty else ()
        return Region(own.entries, (*inner.exits, *skipped), nodes)

    def _step(self, step: BodyStep) -> Region:
        """The nodes of one step of a body."""
        within = (*self.within, self.name)
        if step.kind == "crew" and step.target is not OPEN:
            return crew_region(self.assembly, self.reader, step.target, within)
        if step.kind == "task":
            crew = CallResult(None, Arguments(keywords={"tasks": exactly(Sequence((exactly(step.target),)))}))
            return crew_region(self.assembly, self.reader, crew, within)
        if step.kind == "flow" and len(within) < MOST_FLOWS:
            return flow_region(self.assembly, self.reader, step.target, within)
        if step.kind in {"tool", "agent"}:
            tools = self._tools(step)
            node = self._inner_node(tools.names[0] if len(tools.names) == 1 else step.kind)
            self.assembly.describe(
                node, "tool", node, tools=tools.names, gated_tools=tools.gated, model_chooses=step.kind == "agent",
                **tools.marks(),
            )  # fmt: skip
        elif step.kind == "person":
            node = self.assembly.describe(self._inner_node("ask"), "human", f"{self.name} asks a person")
        else:
            why = mark(f"the {step.kind} that {self.name!r} runs is unknown; verify it separately")
            node = self.assembly.describe(
                self._inner_node(step.kind), "subgraph", self.name, widened=why, tools_unknown=why
            )
        return single(node)

    def _inner_node(self, what: str) -> str:
        return self.assembly.id(object(), f"{self.name}/{what}", self.within)


def _last(leave: RegionExit, steps: BodySteps, key: Key) -> RegionExit:
    """An exit of a step, conditional if other steps can follow."""
    return replace(leave, conditional=leave.conditional or any(link == key for link, _ in steps.links))


def _branches(steps: BodySteps, key: Key) -> bool:
    """Whether a step has several alternative successors; parallel ones count as one."""
    ways = {None if link in steps.parallel else link for link in steps.links if link[0] == key}
    return len(ways) + (key in steps.ends) > 1


def _entries(steps: BodySteps, key: Key, other: Key, region: Region) -> tuple[RegionEntry, ...]:
    """The entries of a step after another one."""
    together = (key, other) in steps.parallel
    return tuple(replace(entry, kind="parallel") if together else entry for entry in region.entries)


def _first_steps(steps: BodySteps) -> list[Key]:
    return [other for ordered_link, other in steps.ordered_links if ordered_link == BEGIN]


def _key_of(steps: BodySteps, step: BodyStep) -> Key:
    return next(key for key, known_step in steps.by_key.items() if known_step is step)


def _asks(steps: BodySteps) -> str | None:
    """`always` or `sometimes`, as a body asks a person; None without steps."""
    if not steps.by_key:
        return None
    return "always" if steps.always("person") else "sometimes"


def _is_label(value: object) -> bool:
    return isinstance(value, str | int | float | Enum)


def _label(value: object) -> str:
    return str(value.value if isinstance(value, Enum) else value)


def _function(flow: Any, name: str, definition: Any) -> FunctionType | ReadableFunction | None:
    """The function of a method; None if the flow declares an action instead."""
    if getattr(definition.do, "call", None) != "code":
        return None
    kind = kinds_of(flow)[0]
    function = inspect.getattr_static(kind, name, _MISSING)
    if function is _MISSING:
        declared = getattr(kind, "model_fields", {}).get(name)  # CrewAI keeps a method there if a field has its name
        function = getattr(declared, "default", _MISSING)
    while hasattr(type(function), "unwrap"):
        function = function.unwrap()
    if isinstance(function, ReadableFunction):
        return function
    if not isinstance(function, FunctionType):
        function = resolve_reference(str(definition.do.ref))
    return inspect.unwrap(function) if isinstance(function, FunctionType) else None


def definition_of(flow: Any) -> Any:
    """CrewAI's own definition of the methods of a flow."""
    if isinstance(flow, CallResult):
        return private_attribute(flow.callee, "flow_definition", "crewai")()
    return private_attribute(flow, "_definition", "crewai")  # the class has no definition of a flow declared in YAML


def flow_region(assembly: Assembly, reader: CrewReader, flow: Any, within: tuple[str, ...]) -> Region:
    """The region of a flow."""
    definitions = definition_of(flow).methods
    named = [FlowMethod(assembly, reader, flow, name, definitions, within) for name in definitions]
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
        return crew_region(assembly, reader, _crew_with(target), ())
    if is_kind(target, "BaseAgent", "LiteAgent"):
        return _agent(assembly, reader, target)
    kind: Any = target.callee if isinstance(target, CallResult) else type(target)
    if is_crew_base(kind):
        created = crew_of(reader, CallResult(kind, Arguments()), f"{kind.__module__}.{kind.__qualname__}")
        return crew_region(assembly, reader, created, ())
    raise InputError(f"a {kind.__name__} of CrewAI is not a workflow; expected a Crew, a Flow, an Agent or a Task")


def _crew_with(task: Any) -> CallResult:
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
    return single(node)
