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
    Listed,
    Reader,
    always_asks,
    field,
    flag,
    is_kind,
    is_ordered,
    listed,
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
class Tools:
    """Tools that can be called.

    Attributes:
        names: those that are known.
        gated: those whose own code asks a person first.
        unknown: where others come from, in words.
    """

    names: tuple[str, ...] = ()
    gated: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def __or__(self, other: Tools) -> Tools:
        once = (dict.fromkeys((*own, *more)) for own, more in zip(self._parts, other._parts, strict=True))
        names, gated, unknown = (tuple(part) for part in once)
        return Tools(names, gated, unknown)

    @property
    def _parts(self) -> tuple[tuple[str, ...], ...]:
        return self.names, self.gated, self.unknown

    def __bool__(self) -> bool:
        return bool(self.names or self.unknown)


_MAYBE = Tools(unknown=("settings that the code does not tell",))


def tools_of(found: Listed) -> Tools:
    """The tools of a list."""
    named = [(None if tool is OPEN else tool_name(tool), tool) for tool in found.items]
    known = tuple(name for name, _ in named if name)
    gated = tuple(name for name, tool in named if name and always_asks(tool))
    certain = found.complete and all(name for name, _ in named)
    unseen = tuple(f"what {name} runs ({what})" for name, tool in named if name for what in unseen_of(tool))
    return Tools(known, gated, unseen if certain else (*unseen, "code that does not tell them"))


def agent_tools(reader: Reader, agent: Any) -> Tools:
    """The tools of an agent, with those of the servers and platforms that it is connected with."""
    if agent is OPEN or isinstance(agent, UnknownValue):
        return Tools(unknown=("an agent that is not known",))
    if agent is None:
        return Tools()
    own = tools_of(listed(reader, agent, "tools"))
    return own | Tools(unknown=tuple(_remote(agent)))


def _remote(agent: Any) -> Iterable[str]:
    for name, words in (("mcps", "MCP servers"), ("apps", "platform apps"), ("a2a", "remote agents")):
        if field(agent, name) not in (None, (), []):
            yield words


class Crew:
    """A crew, live or as code would make it."""

    def __init__(self, reader: Reader, crew: Any) -> None:
        self.reader, self.crew = reader, crew
        self.agents = listed(reader, crew, "agents")
        self.tasks = [one for one in listed(reader, crew, "tasks").items if one is not OPEN]
        self.is_known = is_ordered(crew, "tasks") and OPEN not in listed(reader, crew, "tasks").items

    @property
    def is_hierarchical(self) -> bool:
        process = field(self.crew, "process")
        return process is OPEN or str(getattr(process, "value", process)) == "hierarchical"

    @property
    def manager(self) -> str:
        """The role of the manager: of an agent that was named, or of the one that CrewAI makes."""
        manager = field(self.crew, "manager_agent")
        return str(field(manager, "role")).strip() if manager not in (None, OPEN) else "Crew Manager"

    def tools(self, task: Any) -> Tools:
        """All tools that can be called in a task."""
        agent = field(task, "agent")
        own = tools_of(listed(self.reader, task, "tools"))
        found = own | Tools(unknown=agent_tools(self.reader, agent).unknown) if own else agent_tools(self.reader, agent)
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

    def _memory(self, agent: Any) -> Tools:
        remembers = {flag(self.crew, "memory"), flag(agent, "memory")}
        return Tools(_MEMORY_TOOLS) if True in remembers else _MAYBE if None in remembers else Tools()

    def _images(self, agent: Any) -> Tools:
        sees = flag(agent, "multimodal")
        return Tools((_IMAGE_TOOL,)) if sees else _MAYBE if sees is None else Tools()


def task_name(task: Any, place: int) -> str:
    """The name of a task, or its place where it has none."""
    name = field(task, "name")
    return name if isinstance(name, str) and name else f"task_{place}"


def role(agent: Any) -> str:
    said = field(agent, "role") if agent not in (None, OPEN) else ""
    return str(said).strip() if isinstance(said, str) else ""


@dataclass
class _Line:
    """How far a crew has come: the tasks that run beside each other now, and where they were started from."""

    assembly: Assembly
    entries: list[RegionEntry]
    before: tuple[RegionExit, ...] | None = None
    beside: list[Region] | None = None

    def start(self, region: Region, kind: EdgeKind) -> None:
        """A task that runs beside the next ones."""
        self._lead(self.before, [replace(entry, kind=kind) for entry in region.entries])
        self.beside = [*(self.beside or ()), region]

    def run(self, region: Region, condition: str | None = None) -> None:
        """A task for which the next one waits; one with a condition can be left out."""
        waiting = self.waiting
        entries = region.entries if condition is None else [_when(entry, condition) for entry in region.entries]
        self._lead(waiting, entries)
        skipped = () if condition is None else tuple(_skip(leave, condition) for leave in waiting or ())
        self.before, self.beside = (*region.exits, *skipped), None

    @property
    def waiting(self) -> tuple[RegionExit, ...] | None:
        """What comes right before the next task; None where it is the first."""
        if not self.beside:
            return self.before
        joins = len(self.beside) > 1
        return tuple(replace(leave, joins=joins) for region in self.beside for leave in region.exits)

    def _lead(self, exits: tuple[RegionExit, ...] | None, entries: Iterable[RegionEntry]) -> None:
        if exits is None:
            self.entries.extend(entries)
        else:
            self.assembly.connect(exits, entries)


def _when(entry: RegionEntry, condition: str) -> RegionEntry:
    return replace(entry, kind="conditional", condition=condition)


def _skip(leave: RegionExit, condition: str) -> RegionExit:
    return replace(leave, conditional=True, condition=f"not {condition}")


def crew_region(assembly: Assembly, reader: Reader, thing: Any, within: tuple[str, ...]) -> Region:
    """What a crew adds to a graph."""
    crew = Crew(reader, thing)
    entries: list[RegionEntry] = []
    line = _Line(assembly, entries)
    regions = [_task(assembly, crew, task, place, within) for place, task in enumerate(crew.tasks, 1)]
    if not crew.is_known:
        return _in_any_order(assembly, regions, within)
    for place, (task, region) in enumerate(zip(crew.tasks, regions, strict=True)):
        if _is_beside_others(task):
            line.start(region, "parallel" if _is_beside(crew.tasks, place) else "direct")
        else:
            line.run(region, _condition(task))
    exits = line.waiting or ()
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


def _is_beside_others(task: Any) -> bool:
    return bool(flag(task, "async_execution"))


def _is_beside(tasks: list[Any], place: int) -> bool:
    """Whether an asynchronous task runs beside another one."""
    around = [tasks[one] for one in (place - 1, place + 1) if 0 <= one < len(tasks)]
    return any(_is_beside_others(task) for task in around)


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
    for what in _around(task):
        assembly.mark(node, tools_unknown=True)
        assembly.note(f"{node}: may call tools that cannot be seen: {what}")
    for where in tools.unknown:
        assembly.note(f"tools of {node} come from {where}: they are known only when it runs")
    last = node
    if asks and tools:
        last = _review(assembly, name, within)
        assembly.connect([RegionExit(node)], [RegionEntry(last)])
        assembly.connect([RegionExit(last, "the person wants changes", back=True)], [RegionEntry(node)])
    if words := _guardrails(task):
        again = f"{words} fails, at most {field(task, 'guardrail_max_retries', 3)} times"
        assembly.connect([RegionExit(last, again, back=True)], [RegionEntry(node)])
    return Region((RegionEntry(node),), (RegionExit(last),), frozenset({node, last}))


def _around(task: Any) -> list[str]:
    """What the functions around a task run that cannot be seen."""
    given = [(name, field(task, name)) for name in ("callback", "guardrail")]
    return [f"{name}: {what}" for name, one in given if callable(one) for what in opaque_calls_in(one)]


def _review(assembly: Assembly, name: str, within: tuple[str, ...]) -> str:
    """Where a person looks at the result of a task, after its tools were called."""
    node = assembly.id(object(), f"{name}/human_input", within)
    return assembly.describe(node, "human", f"review of {name}")


def _label(task: Any, name: str) -> str:
    said = field(task, "description")
    return name if field(task, "name") or not isinstance(said, str) else said.strip().split("\n")[0][:60]


def _metadata(crew: Crew, task: Any, tools: Tools) -> dict[str, Any]:
    places = {id(one): place for place, one in enumerate(crew.tasks, 1)}
    before = [task_name(one, places[id(one)]) for one in _known(field(task, "context")) if id(one) in places]
    return {
        "agent": role(field(task, "agent")),
        "model_chooses": bool(tools),
        "widened": bool(tools.unknown),
        "tools_unknown": bool(tools.unknown),
        "context": tuple(before),
        "runs_beside": _is_beside_others(task),
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
    said = [one if isinstance(one, str) else source_text(one) for one in flat if one not in (None, OPEN)]
    return " and ".join([*said, *(["a guardrail that is not known"] if OPEN in flat else [])])
