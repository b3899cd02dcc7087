"""A crew of CrewAI: its tasks in their order, what runs beside what, and who may call which tools in them.

Every process runs the tasks one after another. In a hierarchical one a manager carries them all out and may leave any
to the task's agent (or, where it has none, to any agent); an agent that may delegate can leave work to the others. So a
task's tools are its own (or its agent's), and those of whoever the work may be left to.
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
    tool_name,
    unseen_of,
)
from guardagent.workflow.extraction.framework_objects import UnknownValue
from guardagent.workflow.extraction.regions import Assembly, Region, RegionEntry, RegionExit, single
from guardagent.workflow.model.graph import EdgeKind, NodeKind
from guardagent.workflow.python_source.functions.bodies import opaque_calls_in
from guardagent.workflow.python_source.functions.outcomes import source_text

_MEMORY_TOOLS = ("search_memory", "save_to_memory")
_IMAGE_TOOL = "add_image_to_content"


@dataclass(frozen=True)
class CrewTools:
    """Tools that can be called.

    Attributes:
        names: those that are known.
        gated: those whose own code asks a person first.
        unknown: where others come from, in words.
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


_UNKNOWN_SETTINGS = CrewTools(unknown=("settings that the code does not tell",))


def tools_of(elements: KnownElements) -> CrewTools:
    """The tools of a list."""
    named = [(None if tool is OPEN else tool_name(tool), tool) for tool in elements.items]
    known = tuple(name for name, _ in named if name)
    gated = tuple(name for name, tool in named if name and always_asks(tool))
    certain = elements.complete and all(name for name, _ in named)
    unseen = tuple(f"what {name} runs ({what})" for name, tool in named if name for what in unseen_of(tool))
    return CrewTools(known, gated, unseen if certain else (*unseen, "code that does not tell them"))


def agent_tools(reader: CrewReader, agent: Any) -> CrewTools:
    """The tools of an agent, with those of the servers and platforms that it is connected with."""
    if agent is OPEN or isinstance(agent, UnknownValue):
        return CrewTools(unknown=("an agent that is not known",))
    if agent is None:
        return CrewTools()
    own = tools_of(elements_of(reader, agent, "tools"))
    return own | CrewTools(unknown=tuple(_remote(agent)))


def _remote(agent: Any) -> Iterable[str]:
    for name, words in (("mcps", "MCP servers"), ("apps", "platform apps"), ("a2a", "remote agents")):
        if field(agent, name) not in (None, (), []):
            yield words


class Crew:
    """A crew, live or as code would make it."""

    def __init__(self, reader: CrewReader, crew: Any) -> None:
        self.reader, self.crew = reader, crew
        self.agents = elements_of(reader, crew, "agents")
        self.tasks = [one for one in elements_of(reader, crew, "tasks").items if one is not OPEN]
        self.is_known = is_ordered(crew, "tasks") and OPEN not in elements_of(reader, crew, "tasks").items

    @property
    def is_hierarchical(self) -> bool:
        process = field(self.crew, "process")
        return process is OPEN or str(getattr(process, "value", process)) == "hierarchical"

    @property
    def manager(self) -> str:
        """The role of the manager: of an agent that was named, or of the one that CrewAI makes."""
        manager = field(self.crew, "manager_agent")
        return str(field(manager, "role")).strip() if manager not in (None, OPEN) else "Crew Manager"

    def tools(self, task: Any) -> CrewTools:
        """All tools that can be called in a task."""
        agent = field(task, "agent")
        own = tools_of(elements_of(self.reader, task, "tools"))
        found = (
            own | CrewTools(unknown=agent_tools(self.reader, agent).unknown) if own else agent_tools(self.reader, agent)
        )
        for helper in self.helpers(task):
            found |= agent_tools(self.reader, helper)
        return found | self._memory(agent) | self._images(agent)

    def helpers(self, task: Any) -> list[Any]:
        """The agents to whom the work can be left."""
        agent = field(task, "agent")
        if self.is_hierarchical:
            return [agent] if agent is not None else list(self.agents.items)
        if agent in (None, OPEN) or flag(agent, "allow_delegation") is False:
            return []
        return [one for one in self.agents.items if one is not agent]

    def _memory(self, agent: Any) -> CrewTools:
        remembers = {flag(self.crew, "memory"), flag(agent, "memory")}
        return (
            CrewTools(_MEMORY_TOOLS) if True in remembers else _UNKNOWN_SETTINGS if None in remembers else CrewTools()
        )

    def _images(self, agent: Any) -> CrewTools:
        sees = flag(agent, "multimodal")
        return CrewTools((_IMAGE_TOOL,)) if sees else _UNKNOWN_SETTINGS if sees is None else CrewTools()


def task_name(task: Any, place: int) -> str:
    """The name of a task, or its place where it has none."""
    name = field(task, "name")
    return name if isinstance(name, str) and name else f"task_{place}"


def role(agent: Any) -> str:
    value = field(agent, "role") if agent not in (None, OPEN) else ""
    return str(value).strip() if isinstance(value, str) else ""


@dataclass
class _TaskSequence:
    """How far a crew has come: the tasks that run beside each other now, and where they were started from."""

    assembly: Assembly
    entries: list[RegionEntry]
    previous: tuple[RegionExit, ...] | None = None
    parallel: list[Region] | None = None

    def add_parallel(self, region: Region, kind: EdgeKind) -> None:
        """A task that runs beside the next ones."""
        self._connect(self.previous, [replace(entry, kind=kind) for entry in region.entries])
        self.parallel = [*(self.parallel or ()), region]

    def add(self, region: Region, condition: str | None = None) -> None:
        """A task for which the next one waits; one with a condition can be left out."""
        waiting = self.exits
        entries = region.entries if condition is None else [_when(entry, condition) for entry in region.entries]
        self._connect(waiting, entries)
        skipped = () if condition is None else tuple(_skip(leave, condition) for leave in waiting or ())
        self.previous, self.parallel = (*region.exits, *skipped), None

    @property
    def exits(self) -> tuple[RegionExit, ...] | None:
        """What comes right before the next task; None where it is the first."""
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
    """What a crew adds to a graph."""
    crew = Crew(reader, crew_object)
    entries: list[RegionEntry] = []
    sequence = _TaskSequence(assembly, entries)
    regions = [_task(assembly, crew, task, place, within) for place, task in enumerate(crew.tasks, 1)]
    if not crew.is_known:
        return _in_any_order(assembly, regions, within)
    for place, (task, region) in enumerate(zip(crew.tasks, regions, strict=True)):
        if _is_asynchronous(task):
            sequence.add_parallel(region, "parallel" if _runs_in_parallel(crew.tasks, place) else "direct")
        else:
            sequence.add(region, _condition(task))
    exits = sequence.exits or ()
    nodes = frozenset[str]().union(*(region.nodes for region in regions))
    return Region(tuple(entries), exits, nodes, empty=not entries)


def _in_any_order(assembly: Assembly, regions: list[Region], within: tuple[str, ...]) -> Region:
    """Tasks of which not all are known, or not in which order: any of them, and others, may follow any other."""
    node = assembly.id(object(), "tasks", within)
    assembly.describe(node, "subgraph", "tasks", widened=True, tools_unknown=True)
    whose = f"the crew in {within[-1]}" if within else "the crew"
    assembly.note(f"the tasks of {whose} are not all known, or not in which order: {node} stands for others")
    every = [*regions, single(node)]
    for one in every:
        for other in every:
            leaving = [replace(leave, conditional=True) for leave in one.exits]
            assembly.connect(leaving, [replace(entry, kind="conditional") for entry in other.entries])
    entries = tuple(replace(entry, kind="conditional") for one in every for entry in one.entries)
    exits = tuple(replace(leave, conditional=True) for one in every for leave in one.exits)
    return Region(entries, exits, frozenset().union(*(one.nodes for one in every)))


def _is_asynchronous(task: Any) -> bool:
    return bool(flag(task, "async_execution"))


def _runs_in_parallel(tasks: list[Any], place: int) -> bool:
    """Whether an asynchronous task runs beside another one."""
    around = [tasks[one] for one in (place - 1, place + 1) if 0 <= one < len(tasks)]
    return any(_is_asynchronous(task) for task in around)


def _condition(task: Any) -> str | None:
    """When a conditional task runs, in words; None for any other task."""
    if not is_kind(task, "ConditionalTask"):
        return None
    condition = field(task, "condition")
    return source_text(condition) if condition not in (None, OPEN) else "its condition holds"


def _task(assembly: Assembly, crew: Crew, task: Any, place: int, within: tuple[str, ...]) -> Region:
    name = task_name(task, place)
    node = assembly.id(object(), name, within)  # each time that a crew is run, its tasks are others
    tools = crew.tools(task)
    for setting in ("human_input", "async_execution"):
        if flag(task, setting) is None:
            assembly.note(f"the {setting} of {node} cannot be known: it is taken not to be set")
    asks = bool(flag(task, "human_input"))
    kind: NodeKind = "tool" if tools else "human" if asks else "llm"
    assembly.describe(
        node, kind, _label(task, name), tools=tools.names, gated_tools=tools.gated, **_metadata(crew, task, tools),
        crew=within[-1] if within else None,
    )  # fmt: skip
    for what in _unseen_callbacks(task):
        assembly.mark(node, tools_unknown=True)
        assembly.note(f"{node}: may call tools that cannot be seen: {what}")
    for where in tools.unknown:
        assembly.note(f"tools of {node} come from {where}: they are known only when it runs")
    last = node
    if asks and tools:
        last = _review_node(assembly, name, within)
        assembly.connect([RegionExit(node)], [RegionEntry(last)])
        assembly.connect([RegionExit(last, "the person wants changes", back=True)], [RegionEntry(node)])
    if words := _guardrails(task):
        again = f"{words} fails, at most {field(task, 'guardrail_max_retries', 3)} times"
        assembly.connect([RegionExit(last, again, back=True)], [RegionEntry(node)])
    return Region((RegionEntry(node),), (RegionExit(last),), frozenset({node, last}))


def _unseen_callbacks(task: Any) -> list[str]:
    """What the functions around a task run that cannot be seen."""
    functions = [(name, field(task, name)) for name in ("callback", "guardrail")]
    return [f"{name}: {what}" for name, one in functions if callable(one) for what in opaque_calls_in(one)]


def _review_node(assembly: Assembly, name: str, within: tuple[str, ...]) -> str:
    """Where a person looks at the result of a task, after its tools were called."""
    node = assembly.id(object(), f"{name}/human_input", within)
    return assembly.describe(node, "human", f"review of {name}")


def _label(task: Any, name: str) -> str:
    description = field(task, "description")
    return name if field(task, "name") or not isinstance(description, str) else description.strip().split("\n")[0][:60]


def _metadata(crew: Crew, task: Any, tools: CrewTools) -> dict[str, Any]:
    places = {id(one): place for place, one in enumerate(crew.tasks, 1)}
    before = [task_name(one, places[id(one)]) for one in _known(field(task, "context")) if id(one) in places]
    return {
        "agent": role(field(task, "agent")),
        "model_chooses": bool(tools),
        "widened": bool(tools.unknown),
        "tools_unknown": bool(tools.unknown),
        "context": tuple(before),
        "runs_beside": _is_asynchronous(task),
        "manager": crew.manager if crew.is_hierarchical else None,
        "delegates_to": tuple(role(helper) for helper in crew.helpers(task)),
        "guardrail": _guardrails(task),
    }


def _known(context: Any) -> list[Any]:
    return [one for one in context if one is not OPEN] if isinstance(context, list | tuple) else []


def _guardrails(task: Any) -> str:
    """The guardrails of a task in words; when one fails, the task is carried out again."""
    found = [field(task, "guardrail"), field(task, "guardrails")]
    flat = [one for some in found for one in (some if isinstance(some, list | tuple) else [some])]
    labels = [one if isinstance(one, str) else source_text(one) for one in flat if one not in (None, OPEN)]
    return " and ".join([*labels, *(["a guardrail that is not known"] if OPEN in flat else [])])
