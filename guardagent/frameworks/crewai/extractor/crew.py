"""Crews of CrewAI: the order and parallelism of tasks, and the tools that can be called in each.

Every process runs the tasks in sequence. In a hierarchical one a manager executes them all and may delegate each to the
task's agent (or, without one, to any agent); an agent that may delegate can delegate to the others. The tools of a task
are its own (or its agent's), and those of all possible delegates.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from guardagent.frameworks.crewai.extractor.objects import (
    OPEN,
    CrewReader,
    KnownElements,
    always_asks,
    elements_of,
    field,
    flag,
    is_kind,
    is_ordered,
    library_path,
    options,
    tool_name,
    unseen_of,
)
from guardagent.workflow.extraction import (
    Alternatives,
    Assembly,
    Region,
    RegionEntry,
    RegionExit,
    UnknownValue,
    alternatives,
    sequence,
    single,
)
from guardagent.workflow.model.graph import EDGES, TOOLS, EdgeKind, NodeKind, Unseen, mark
from guardagent.workflow.python_source.bodies import opaque_calls_in
from guardagent.workflow.python_source.outcomes import source_text

_MEMORY_TOOLS = ("search_memory", "save_to_memory")
_IMAGE_TOOL = "add_image_to_content"


@dataclass(frozen=True)
class CrewTools:
    """Tools that can be called.

    Attributes:
        names: the known tools.
        gated: the tools whose code asks a person first.
        unknown: descriptions of the sources of other tools.
    """

    names: tuple[str, ...] = ()
    gated: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def __or__(self, other: CrewTools) -> CrewTools:
        once = (dict.fromkeys((*own, *more)) for own, more in zip(self._parts, other._parts, strict=True))
        names, gated, unknown = (tuple(part) for part in once)
        return CrewTools(names, gated, unknown)

    @property
    def _parts(self) -> tuple[tuple[str, ...], ...]:
        return self.names, self.gated, self.unknown

    def __bool__(self) -> bool:
        return bool(self.names or self.unknown)

    def marks(self) -> dict[str, Any]:
        """Returns the marks of a node that calls them."""
        marks = mark(*(f"its tools come from {where}" for where in self.unknown))
        return {"tools_unknown": marks, "widened": marks}


_UNKNOWN_SETTINGS = CrewTools(unknown=("settings that the code does not determine",))


def tools_of(elements: KnownElements) -> CrewTools:
    """The tools of a list."""
    named = [(None if tool is OPEN else tool_name(tool), tool) for tool in elements.items]
    known = tuple(name for name, _ in named if name)
    gated = tuple(name for name, tool in named if name and always_asks(tool))
    certain = elements.complete and all(name for name, _ in named)
    unseen = tuple(f"the tool {name!r} ({what})" for name, tool in named if name for what in _unseen_in(tool))
    return CrewTools(known, gated, unseen if certain else (*unseen, "code that does not determine them"))


def _unseen_in(tool: Any) -> Iterable[object]:
    """Returns what is unknown about a tool with a name."""
    return ["its declared name is defined elsewhere"] if library_path(tool) else unseen_of(tool)


def agent_tools(reader: CrewReader, agent: Any) -> CrewTools:
    """The tools of an agent, with those of its connected servers and platforms."""
    if agent is OPEN or isinstance(agent, UnknownValue):
        return CrewTools(unknown=("an unknown agent",))
    if agent is None:
        return CrewTools()
    own = tools_of(elements_of(reader, agent, "tools"))
    return own | CrewTools(unknown=tuple(_remote(agent)))


def _remote(agent: Any) -> Iterable[str]:
    for name, words in (("mcps", "MCP servers"), ("apps", "platform apps"), ("a2a", "remote agents")):
        if field(agent, name) not in (None, (), []):
            yield words


class Crew:
    """A crew, live or as code would create it."""

    def __init__(self, reader: CrewReader, crew: Any) -> None:
        self.reader, self.crew = reader, crew
        self.agents = elements_of(reader, crew, "agents")
        listed = elements_of(reader, crew, "tasks")
        self.is_known = is_ordered(crew, "tasks") and OPEN not in listed.items
        known = elements_of(reader, crew, "tasks", unknown=True) if self.is_known else listed
        self.tasks = [item for item in known.items if item is not OPEN]
        self.has_others = not listed.complete or OPEN in listed.items or not self.tasks
        places: list[Any] = list(getattr(crew, "tasks", None) or ())
        is_plain = not any(_is_asynchronous(task) or _condition(task) is not None for task in self.tasks)
        repeats = any(isinstance(place, Alternatives) and place.repeated for place in places)
        self.places = places if is_plain and not self.has_others and not repeats else []

    @property
    def is_hierarchical(self) -> bool:
        process = field(self.crew, "process")
        return process is OPEN or str(getattr(process, "value", process)) == "hierarchical"

    @property
    def manager(self) -> str:
        """The role of the manager: the named agent, or the default of CrewAI."""
        manager = field(self.crew, "manager_agent")
        return str(field(manager, "role")).strip() if manager not in (None, OPEN) else "Crew Manager"

    def tools(self, task: Any) -> CrewTools:
        """All tools that can be called in a task."""
        own = tools_of(elements_of(self.reader, task, "tools"))
        crew_tools = CrewTools()
        for agent in options(task, "agent"):
            tools = agent_tools(self.reader, agent)
            crew_tools |= own | CrewTools(unknown=tools.unknown) if own else tools
            crew_tools |= self._memory(agent) | self._images(agent)
        for helper in self.helpers(task):
            crew_tools |= agent_tools(self.reader, helper)
        return crew_tools

    def helpers(self, task: Any) -> list[Any]:
        """The agents to which the task can be delegated."""
        agents = options(task, "agent")
        if self.is_hierarchical:
            return agents if agents != [None] else list(self.agents.items)
        delegating = [
            agent for agent in agents if agent not in (None, OPEN) and flag(agent, "allow_delegation") is not False
        ]
        others = [other_agent for agent in delegating for other_agent in self.agents.items if other_agent is not agent]
        return list({id(other_agent): other_agent for other_agent in others}.values())

    def _memory(self, agent: Any) -> CrewTools:
        remembers = {flag(self.crew, "memory"), flag(agent, "memory")}
        return (
            CrewTools(_MEMORY_TOOLS) if True in remembers else _UNKNOWN_SETTINGS if None in remembers else CrewTools()
        )

    def _images(self, agent: Any) -> CrewTools:
        sees = flag(agent, "multimodal")
        return CrewTools((_IMAGE_TOOL,)) if sees else _UNKNOWN_SETTINGS if sees is None else CrewTools()


def task_name(task: Any, place: int) -> str:
    """The name of a task, or `task_N` by its position."""
    name = field(task, "name")
    return name if isinstance(name, str) and name else f"task_{place}"


def role(agent: Any) -> str:
    value = field(agent, "role") if agent not in (None, OPEN) else ""
    return str(value).strip() if isinstance(value, str) else ""


@dataclass
class _TaskSequence:
    """Appends tasks in sequence; tracks those that run in parallel, and the exits before them."""

    assembly: Assembly
    entries: list[RegionEntry]
    previous: tuple[RegionExit, ...] | None = None
    parallel: list[Region] | None = None

    def add_parallel(self, region: Region, kind: EdgeKind) -> None:
        """Adds a task that runs in parallel with the next ones."""
        self._connect(self.previous, [replace(entry, kind=kind) for entry in region.entries])
        self.parallel = [*(self.parallel or ()), region]

    def add(self, region: Region, condition: str | None = None) -> None:
        """Adds a task that the next one waits for; a task with a condition can be skipped."""
        waiting = self.exits
        entries = region.entries if condition is None else [_when(entry, condition) for entry in region.entries]
        self._connect(waiting, entries)
        skipped = () if condition is None else tuple(_skip(leave, condition) for leave in waiting or ())
        self.previous, self.parallel = (*region.exits, *skipped), None

    @property
    def exits(self) -> tuple[RegionExit, ...] | None:
        """The exits before the next task; None if it is the first."""
        if not self.parallel:
            return self.previous
        is_join = len(self.parallel) > 1
        return tuple(replace(leave, joins=is_join) for region in self.parallel for leave in region.exits)

    def _connect(self, exits: tuple[RegionExit, ...] | None, entries: Iterable[RegionEntry]) -> None:
        if exits is None:
            self.entries.extend(entries)
        else:
            self.assembly.connect(exits, entries)


def _when(entry: RegionEntry, condition: str) -> RegionEntry:
    return replace(entry, kind="conditional", condition=condition)


def _skip(leave: RegionExit, condition: str) -> RegionExit:
    return replace(leave, conditional=True, condition=f"not {condition}")


def crew_region(assembly: Assembly, reader: CrewReader, crew_object: Any, within: tuple[str, ...]) -> Region:
    """The region of a crew."""
    crew = Crew(reader, crew_object)
    entries: list[RegionEntry] = []
    in_order = _TaskSequence(assembly, entries)
    regions = [_task(assembly, crew, task, place, within) for place, task in enumerate(crew.tasks, 1)]
    if not crew.is_known and crew.places:
        made = {id(task): region for task, region in zip(crew.tasks, regions, strict=True)}
        return replace(sequence(assembly, (_place(assembly, place, made) for place in crew.places)), empty=False)
    if not crew.is_known:
        return _in_any_order(assembly, regions, within, others=crew.has_others)
    for place, (task, region) in enumerate(zip(crew.tasks, regions, strict=True)):
        if _is_asynchronous(task):
            in_order.add_parallel(region, "parallel" if _runs_in_parallel(crew.tasks, place) else "direct")
        else:
            in_order.add(region, _condition(task))
    exits = in_order.exits or ()
    nodes = frozenset[str]().union(*(region.nodes for region in regions))
    if assumed := field(crew_object, "order_assumed"):  # of tasks that no crew of the file takes
        for node in nodes:
            assembly.mark_unknown(node, EDGES, assumed)
    return Region(tuple(entries), exits, nodes, empty=not entries)


def _place(assembly: Assembly, place: Any, made: dict[int, Region]) -> Region:
    """The region of a task, of a list of tasks, or of alternatives of these."""
    if isinstance(place, Alternatives):
        return alternatives(assembly, [_place(assembly, option, made) for option in place.options], place.repeated)
    if isinstance(place, list):
        return sequence(assembly, (_place(assembly, part, made) for part in place))
    return made[id(place)]


def _in_any_order(assembly: Assembly, regions: list[Region], within: tuple[str, ...], *, others: bool) -> Region:
    """The region of tasks that are unknown in part or in order: any may follow any other, and itself."""
    whose = f"the crew in {within[-1]!r}" if within else "the crew"
    if others:
        node = assembly.id(object(), "tasks", within)
        why = mark(f"the tasks of {whose}, or their order, are not all known; {node!r} represents others")
        assembly.describe(node, "subgraph", "tasks", widened=why, tools_unknown=why)
        regions = [*regions, single(node)]
    else:
        assembly.note(f"the number and the order of the tasks of {whose} are unknown; any order is assumed")
    return replace(alternatives(assembly, regions, repeated=True), empty=False)  # a crew without tasks does not run


def _is_asynchronous(task: Any) -> bool:
    return bool(flag(task, "async_execution"))


def _runs_in_parallel(tasks: list[Any], place: int) -> bool:
    """Whether an asynchronous task runs in parallel with a neighbour."""
    around = [tasks[neighbour] for neighbour in (place - 1, place + 1) if 0 <= neighbour < len(tasks)]
    return any(_is_asynchronous(task) for task in around)


def _condition(task: Any) -> str | None:
    """The condition of a conditional task, as text; None for any other task."""
    if not is_kind(task, "ConditionalTask"):
        return None
    condition = field(task, "condition")
    return source_text(condition) if condition not in (None, OPEN) else "its condition holds"


def _task(assembly: Assembly, crew: Crew, task: Any, place: int, within: tuple[str, ...]) -> Region:
    name = task_name(task, place)
    node = assembly.id(object(), name, within)  # each run of a crew has tasks of its own
    if isinstance(task, UnknownValue):
        return _unknown_task(assembly, node, task)
    tools = crew.tools(task)
    for setting in ("human_input", "async_execution"):
        if flag(task, setting) is None:
            assembly.note(f"the {setting!r} of {node!r} is unknown; it is assumed not to be set")
    asks = bool(flag(task, "human_input"))
    kind: NodeKind = "tool" if tools else "human" if asks else "llm"
    assembly.describe(
        node, kind, _label(task, name), tools=tools.names, gated_tools=tools.gated, **_metadata(crew, task, tools),
        crew=within[-1] if within else None,
    )  # fmt: skip
    if unseen := _unseen_callbacks(task):
        assembly.mark_unknown(node, TOOLS, *unseen)
    last = node
    if asks and tools:
        last = _review_node(assembly, name, within)
        assembly.connect([RegionExit(node)], [RegionEntry(last)])
        assembly.connect([RegionExit(last, "the person wants changes", back=True)], [RegionEntry(node)])
    if words := _guardrails(task):
        again = f"{words} fails, at most {field(task, 'guardrail_max_retries', 3)} times"
        assembly.connect([RegionExit(last, again, back=True)], [RegionEntry(node)])
    return Region((RegionEntry(node),), (RegionExit(last),), frozenset({node, last}))


def _unknown_task(assembly: Assembly, node: str, task: UnknownValue) -> Region:
    """A task that another package makes."""
    why = mark(f"the task {task.name!r} is defined elsewhere")
    assembly.describe(node, "subgraph", task.name, widened=why, tools_unknown=why)
    return single(node)


def _unseen_callbacks(task: Any) -> list[Unseen]:
    """Returns what the callback and guardrail of a task run that cannot be seen."""
    functions = [(name, field(task, name)) for name in ("callback", "guardrail")]
    return [
        what.inside(name) for name, function in functions if callable(function) for what in opaque_calls_in(function)
    ]


def _review_node(assembly: Assembly, name: str, within: tuple[str, ...]) -> str:
    """Adds the node where a person reviews the result of a task with tools."""
    node = assembly.id(object(), f"{name}/human_input", within)
    return assembly.describe(node, "human", f"review of {name}")


def _label(task: Any, name: str) -> str:
    description = field(task, "description")
    return name if field(task, "name") or not isinstance(description, str) else description.strip().split("\n")[0][:60]


def _metadata(crew: Crew, task: Any, tools: CrewTools) -> dict[str, Any]:
    places = {id(task): place for place, task in enumerate(crew.tasks, 1)}
    before = [
        task_name(earlier_task, places[id(earlier_task)])
        for earlier_task in _known(field(task, "context"))
        if id(earlier_task) in places
    ]
    return {
        "agent": " or ".join(filter(None, map(role, options(task, "agent")))),
        "model_chooses": bool(tools),
        **tools.marks(),
        "context": tuple(before),
        "runs_beside": _is_asynchronous(task),
        "manager": crew.manager if crew.is_hierarchical else None,
        "delegates_to": tuple(role(helper) for helper in crew.helpers(task)),
        "guardrail": _guardrails(task),
    }


def _known(context: Any) -> list[Any]:
    return [task for task in context if task is not OPEN] if isinstance(context, list | tuple) else []


def _guardrails(task: Any) -> str:
    """The guardrails of a task, as text; the task repeats if one fails."""
    guardrails = [field(task, "guardrail"), field(task, "guardrails")]
    flat = [guardrail for some in guardrails for guardrail in (some if isinstance(some, list | tuple) else [some])]
    labels = [
        guardrail if isinstance(guardrail, str) else source_text(guardrail)
        for guardrail in flat
        if guardrail not in (None, OPEN)
    ]
    return " and ".join([*labels, *(["an unknown guardrail"] if OPEN in flat else [])])
