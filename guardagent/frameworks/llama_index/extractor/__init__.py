"""Extracts the workflow graph of a LlamaIndex workflow, team or agent.

Tested on llama-index-workflows 2.26 with llama-index-core 0.14. Imports nothing of LlamaIndex, runs nothing and calls
no model.

**Nodes.** Every step is a node, by its name. A step that chooses among several events is a `router`. A step that runs
an agent or another workflow leads into it and back by a `loop` edge; a step that calls tools has them. The resources of
a step are known if the code of their factories determines them.

**Edges.** A step leads to all steps that accept an event in its return annotation, or that its code returns or sends; a
`StopEvent` leads to the end. Events sent by `send_event`, in a list, or accepted by several steps are `parallel`; a
choice among several events is `conditional`, with the event's name as the condition. If the events are unknown, there
are edges to all steps and the end, and the node is `widened`. A failed step leads to the `catch_error` step that covers
it. If a list is empty, or its members produce no events, the step that collects them continues. If one of several
branches can end the run, conditional edges lead from the others to the end.

**People.** An `InputRequiredEvent` leads to a `human` node of its name, and from there to the steps that accept a
`HumanResponseEvent`. A step that waits for an answer in its body (`wait_for_event`), or calls `input()`, is `human`
itself; a tool that always does so is gated.

**Agents.** Every agent of an `AgentWorkflow` is a node: `tool` if it has tools (`model_chooses`), else `llm`. It leads
to its hand-off targets, and to the end. A tool that runs an agent or workflow leads into it and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from guardagent.frameworks.llama_index.extractor.steps import (
    WORDS,
    EventCode,
    EventStep,
    is_event,
    is_workflow,
    names_of,
    of_library,
    steps_of,
)
from guardagent.frameworks.llama_index.package import FRAMEWORK
from guardagent.workflow.extraction import (
    EMPTY_REGION,
    AgentTools,
    Assembly,
    Region,
    RegionEntry,
    RegionExit,
    UnknownValue,
    cancelled_nodes,
    flattened,
    reachable_nodes,
    source_location,
)
from guardagent.workflow.model.graph import CONDITION, EDGES, END, EdgeKind, Graph
from guardagent.workflow.python_source.bodies import FrameworkNames, MethodCall, ReadableFunction
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.steps import StepSummary, gate_of, owners_of, step_of
from guardagent.workflow.python_source.values import (
    CallResult,
    Class,
    ImportedName,
    Instance,
    Values,
    is_member_of,
    path_of,
)

RUNS = frozenset({"run"})
AGENTS = ("FunctionAgent", "ReActAgent", "CodeActAgent", "AgentWorkflow")


def is_agent(target: object) -> bool:
    return of_library(target, "BaseWorkflowAgent")


def is_team(target: object) -> bool:
    return of_library(target, "AgentWorkflow")


def name_of(tool: Any) -> str:
    """The name of a tool, or of a function that becomes one."""
    return str(getattr(tool, "__name__", "") if isinstance(tool, ReadableFunction) else tool.metadata.name)


def functions_of(tool: Any) -> list[Any]:
    """The function of the program that a tool runs, if any."""
    if isinstance(tool, ReadableFunction):
        return [tool]
    real_fn = getattr(tool, "_real_fn", None) or getattr(tool, "_async_fn", None) or getattr(tool, "_fn", None)
    return [real_fn] if real_fn is not None else []


def toolbox(agent: Any) -> AgentTools:
    """The tools of an agent."""
    box = AgentTools()
    for tool in flattened(agent.tools or ()):
        if isinstance(tool, UnknownValue):
            box.add_outside(tool)
            continue
        functions = functions_of(tool)
        box.add(name_of(tool), gate_of(box, name_of(tool), functions, WORDS))
        for function in functions:
            _record_runs(box, name_of(tool), function)
    if agent.tool_retriever is not None:
        box.add_source("retriever")
    return box


def _record_runs(box: AgentTools, name: str, function: Any) -> None:
    """Records the workflows and agents that a tool's function runs."""
    for _, owners in owners_of(EventCode(function), RUNS):
        box.runs += [(name, owner) for owner in owners.known if is_workflow(owner) and not isinstance(owner, type)]
        if not owners.complete or not owners.known or any(map(_makes_agent, owners.known)):
            box.notes.append(f"the workflow that the tool {name!r} runs is unknown")
            box.add_source(name)


def _makes_agent(owner: object) -> bool:
    """Whether a value is an agent that is known only by its class."""
    kind = owner.callee if isinstance(owner, CallResult) else owner.of if isinstance(owner, Instance) else None
    return isinstance(kind, ImportedName) and any(is_member_of(kind, "llama_index", name) for name in AGENTS)


def final_tools(agent: Any) -> list[str]:
    """The tools whose output ends a run without another model call."""
    facts = [(tool, getattr(tool, "metadata", None)) for tool in flattened(agent.tools or ())]
    return [name_of(tool) for tool, about in facts if getattr(about, "return_direct", False)]


def handoffs(team: Any, agent: Any) -> list[Any]:
    """The hand-off targets of an agent."""
    allowed = agent.can_handoff_to
    others = [other_agent for other_agent in team.agents.values() if other_agent is not agent]
    return [other_agent for other_agent in others if allowed is None or other_agent.name in allowed]


def is_silent(workflow: Any) -> bool:
    """Whether an agent or a team has no tools, and so needs no nodes."""
    agents = workflow.agents.values() if is_team(workflow) else [workflow] if is_agent(workflow) else None
    return agents is not None and not any(toolbox(agent).names for agent in agents)


# --- workflows and teams

_CALLS = {"call", "acall", "__call__"}
_MODELS = ("BaseLLM", "LLM")


def recognises(target: object) -> bool:
    return is_workflow(target)


def extract(target: Any, name: str) -> Graph:
    """The graph of a workflow, a class of workflows, a team or an agent."""
    assembly = Assembly()
    return assembly.graph(name, FRAMEWORK, _Workflows(assembly).region(target))


@dataclass(frozen=True)
class _StepEdge:
    """An edge between steps; END is the end of the workflow."""

    source: str
    target: str
    kind: EdgeKind = "direct"
    condition: str = ""


class _Workflows:
    """Adds workflows to an assembly, with what their steps run."""

    runs = RUNS
    names: FrameworkNames = WORDS

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self._active: list[Any] = []

    def region(self, workflow: Any, within: tuple[str, ...] = ()) -> Region:
        """Adds a workflow's nodes and edges."""
        self._active.append(workflow)
        try:
            if is_team(workflow):
                return self._team(
                    list(workflow.agents.values()), workflow.agents[workflow.root_agent], workflow, within
                )
            if is_agent(workflow):
                return self._team([workflow], workflow, None, within)
            return self._steps(workflow, within)
        finally:
            self._active.pop()

    # Teams of agents.

    def _team(self, agents: list[Any], root: Any, team: Any, within: tuple[str, ...]) -> Region:
        """The region of the agents of a team that are reachable from its root."""
        pending, met = [root], [root]
        exits: list[RegionExit] = []
        while pending:
            agent = pending.pop(0)
            following = handoffs(team, agent) if team is not None else []
            exits.append(self._agent(agent, following, within))
            fresh = [target for target in following if not any(target is old for old in met)]
            met += fresh
            pending += fresh
        for agent in agents:
            if not any(agent is met_agent for met_agent in met):
                self._describe_agent(agent, within)
        return Region(
            (RegionEntry(self._id(root, within)),),
            tuple(exits),
            frozenset(self._id(met_agent, within) for met_agent in met),
        )

    def _id(self, agent: Any, within: tuple[str, ...]) -> str:
        return self.assembly.id(agent, str(agent.name), within)

    def _agent(self, agent: Any, following: list[Any], within: tuple[str, ...]) -> RegionExit:
        """Adds an agent with its outgoing edges, and returns its exit."""
        node = self._id(agent, within)
        box = self._describe_agent(agent, within)
        for other in following:
            leave = RegionExit(node, "handoff", conditional=True)
            self.assembly.connect([leave], [RegionEntry(self._id(other, within))])
        leads = bool(following)
        for tool, inner in box.runs:
            leads = self._run(node, inner, (*within, node), f"calls {tool}") or leads
        condition = " or ".join(["final output", *(f"after {final_tool}" for final_tool in final_tools(agent))])
        return RegionExit(node, condition if leads else "", conditional=leads)

    def _describe_agent(self, agent: Any, within: tuple[str, ...]) -> AgentTools:
        node, box = self._id(agent, within), toolbox(agent)
        if self.assembly.has(node):
            return box
        place = source_location(agent, str(agent.name), type(agent).__name__)
        self.assembly.describe_agent(node, str(agent.name), box, final_tools=tuple(final_tools(agent)), **place)
        return box

    def _run(self, node: str, inner: Any, within: tuple[str, ...], condition: str = "") -> bool:
        """Connects a node with a workflow that it runs; returns whether that adds any nodes."""
        if any(inner is active_workflow for active_workflow in self._active):
            self.assembly.note(f"{node}: it runs a workflow that contains it")
            return False
        if is_silent(inner):
            return False
        region = self.region(inner, within)
        self.assembly.connect([RegionExit(node, condition, conditional=True)], region.entries)
        self.assembly.connect([replace(region_exit, back=True) for region_exit in region.exits], [RegionEntry(node)])
        return True

    # Steps.

    def _steps(self, workflow: Any, within: tuple[str, ...]) -> Region:
        events = _EventGraph(steps_of(workflow))
        ways = events.edges()
        ids = {name: self.assembly.id(object(), name, within) for name in (*events.steps, *events.human_nodes)}
        inner = {name: self._step(ids[name], step, ways, within) for name, step in events.steps.items()}
        for name in events.human_nodes:
            self.assembly.describe(ids[name], "human", name, interrupt=name)
        exits: list[RegionExit] = []
        for way in ways:
            conditional = way.kind == "conditional" or (inner.get(way.source, False) and way.kind == "direct")
            leave = RegionExit(ids[way.source], way.condition, conditional=conditional)
            if way.target == END:
                exits.append(leave)
            else:
                self.assembly.connect([leave], [RegionEntry(ids[way.target], way.kind)])
        for note in events.notes:
            self.assembly.note(note)
        begins = events.starts()
        kind: EdgeKind = "parallel" if len(begins) > 1 else "direct"
        entries = tuple(RegionEntry(ids[begin], kind) for begin in begins)
        return Region(entries, tuple(exits), frozenset(ids.values())) if ids else EMPTY_REGION

    def _step(self, node: str, event_step: EventStep, ways: list[_StepEdge], within: tuple[str, ...]) -> bool:
        """Describes a step and adds the workflows that it runs; returns whether there are any."""
        step = step_of(self, [event_step.bound])
        own = [way for way in ways if way.source == event_step.name]
        chooses = len(own) > 1 and all(way.kind == "conditional" for way in own)
        self._tools_of_models(step, event_step.code)
        runs = [name for name, graph in step.graphs.items() if not is_silent(graph)]
        step.calls_model = step.calls_model or len(runs) < len(step.graphs)
        step.graphs = {name: graph for name, graph in step.graphs.items() if name in runs}
        about = {**step.metadata(), **_step_metadata(event_step)}
        self.assembly.describe_tools(node, step.kind(chooses=chooses), event_step.name, step.tools, **about)
        if event_step.open_outputs:
            self.assembly.mark_unknown(node, EDGES, *event_step.open_outputs)
        deeper = (*within, node)
        several = [self._run(node, graph, (*deeper, name) if len(runs) > 1 else deeper)
                   for name, graph in step.graphs.items()]  # fmt: skip
        return any(several)

    # The objects that the functions of a step use.

    def record(self, step: StepSummary, use: MethodCall) -> None:
        if use.method == "run" and is_workflow(use.owner):
            step.add_graph(use.owner, _name(use.owner))
        elif use.method == "run" and isinstance(use.owner, CallResult) and self.may_run(use.owner.callee):
            self._created(step, use.owner)
        elif use.method in _CALLS and of_library(use.owner, "BaseTool"):
            tool: Any = use.owner
            self._call(step, tool, use)
        elif of_library(use.owner, *_MODELS):
            step.calls_model = True

    def _call(self, step: StepSummary, tool: Any, use: MethodCall) -> None:
        name = name_of(tool)
        step.tools.add(name, "" if use.after_approval else gate_of(step.tools, name, functions_of(tool), WORDS))
        step.model_chooses = step.model_chooses or not use.unconditional

    def _created(self, step: StepSummary, created: CallResult) -> None:
        """Records a workflow created where it runs: by its class, or by the tools of an agent."""
        maker = created.callee
        names = (
            [base.__name__ for base in maker.__mro__]
            if isinstance(maker, type)
            else [path_of(maker).rpartition(".")[2]]
        )
        if not {"BaseWorkflowAgent", *AGENTS} & set(names):
            step.add_graph(maker, getattr(maker, "__name__", "workflow"))
            return
        step.calls_model = step.model_chooses = True
        self._listed_tools(step, created.arguments.get("tools"))
        if created.arguments.get("tool_retriever") is not None or "AgentWorkflow" in names:
            step.add_unknown("agent")

    def _listed_tools(self, step: StepSummary, tools: Values | None) -> None:
        """Records the tools in a list that a model receives."""
        if tools is None:
            return
        reading = Evaluator()
        items = reading.ordered_elements(tools)
        for item in items if items is not None else [reading.elements(tools)]:
            known = [self._listed_tool(step, value) for value in item.known]
            # objects that the library creates are never completely known; their being tools suffices
            if not all(known) or not known or not (item.complete or items is not None):
                step.add_unknown("tools")

    def _listed_tool(self, step: StepSummary, step_shown: object) -> bool:
        """Records a tool that a model receives; returns whether it is known."""
        step_shown = step.shown(step_shown)
        named = _function_tool(step_shown)
        if of_library(step_shown, "BaseTool"):
            self._call(step, step_shown, MethodCall(step_shown, "call", unconditional=False))
        elif named is not None:
            step.tools.add(named[0], gate_of(step.tools, *named, WORDS))
        return named is not None or of_library(step_shown, "BaseTool")

    def _tools_of_models(self, step: StepSummary, code: EventCode) -> None:
        """Records the tools of `predict_and_call`."""
        for values, _, _ in code.arguments_of("predict_and_call", "apredict_and_call", names=("tools",)):
            step.calls_model = step.model_chooses = True
            self._listed_tools(step, values)

    def recognises(self, owner: object) -> bool:
        return is_workflow(owner) or (isinstance(owner, CallResult) and self.may_run(owner.callee))

    def may_run(self, kind: object) -> bool:
        if isinstance(kind, ImportedName):
            return any(is_member_of(kind, "llama_index", name) for name in AGENTS)
        return isinstance(kind, type) and is_workflow(kind) and not isinstance(kind, Class)


def _function_tool(tool: object) -> tuple[str, list[Any]] | None:
    """The name and function of a function tool; None if the object is not one, or is unknown."""
    if isinstance(tool, FunctionType | ReadableFunction):
        return str(getattr(tool, "__name__", "")), [tool]
    if not isinstance(tool, CallResult) or not path_of(tool.callee).endswith("FunctionTool.from_defaults"):
        return None
    functions = tool.arguments.get("fn", 1) or tool.arguments.get("async_fn")
    names = tool.arguments.get("name", 2)
    known = [function for function in functions.known if isinstance(function, FunctionType)] if functions else []
    if len(known) != 1 or (names is not None and not names.strings):
        return None
    return next(iter(names.strings or ()), "") if names else known[0].__name__, known


def _name(workflow: Any) -> str:
    own = getattr(workflow, "name", None) if is_agent(workflow) else None
    return str(own or (workflow if isinstance(workflow, type) else type(workflow)).__name__)


def _step_metadata(step: EventStep) -> dict[str, Any]:
    """The metadata of a step."""
    config = step.config
    several = getattr(config, "collect_params", None)
    return {
        "takes": tuple(
            names_of(accepted_event for accepted_event in config.accepted_events if isinstance(accepted_event, type))
        ),
        "join": step.collects,
        "waits_for": tuple(names_of(event for _, event in several)) if several else (),
        "num_workers": config.num_workers,
        "retries": getattr(config, "retry_policy", None) is not None,
    }


class _EventGraph:
    """The edges of events between the steps of one workflow.

    Attributes:
        human_nodes: the nodes where a person is asked, by name, with the class of the event that asks.
    """

    def __init__(self, steps: dict[str, EventStep]) -> None:
        self.steps = steps
        self.human_nodes: dict[str, Any] = {}
        self.notes: list[str] = []

    def starts(self) -> list[str]:
        """The steps that start a run."""
        return [
            name
            for name, step in self.steps.items()
            if any(is_event(e, "StartEvent") for e in self._accepted_events(step))
        ]

    def _accepted_events(self, step: EventStep) -> list[Any]:
        return [accepted_event for accepted_event in step.config.accepted_events if isinstance(accepted_event, type)]

    def edges(self) -> list[_StepEdge]:
        """All edges between the steps."""
        ways = [way for name, step in self.steps.items() for way in self._emission_edges(name, step)]
        ways += list(self._response_edges())
        ways += list(self._unsolicited_edges(ways))
        ways += list(self._failure_edges())
        ways += list(self._empty_edges(ways))
        ways += list(self._cut_edges(ways))
        return list(dict.fromkeys(ways))

    def _emission_edges(self, name: str, step: EventStep) -> Iterator[_StepEdge]:
        """The edges of the events that a step emits."""
        choices = len({emission.event for emission in step.emissions if not emission.parallel}) + len(step.open_outputs)
        for step_emission in step.emissions:
            targets = self._receivers(step_emission.event, sent=step_emission.sent, to=step_emission.to)
            parallel: EdgeKind = "parallel" if step_emission.parallel or len(targets) > 1 else "direct"
            kind: EdgeKind = "conditional" if choices > 1 and not step_emission.parallel else parallel
            for target in targets:
                yield _StepEdge(name, target, kind, step_emission.event.__name__ if kind != "direct" else "")
            if not targets:
                self.notes.append(f"{name}: no step accepts its {step_emission.event.__name__}")
        if step.open_outputs:
            yield from (_StepEdge(name, target, "conditional") for target in (*self.steps, END))

    def _receivers(self, event: Any, *, sent: bool, to: str | None) -> list[str]:
        """The steps that receive an event; a sent event neither ends the run nor asks a person."""
        if is_event(event, "StopEvent") and not sent:
            return [END]
        names = [name for name, step in self.steps.items() if step.accepts(event) and to in {None, name}]
        if is_event(event, "InputRequiredEvent") and (not sent or not names):
            self.human_nodes[event.__name__] = event
            names.append(event.__name__)
        return names

    def _responders(self) -> list[tuple[str, str]]:
        """The steps that accept a person's answer, each with the event."""
        return [
            (name, event.__name__)
            for name, step in self.steps.items()
            for event in (*self._accepted_events(step), *step.awaited)
            if is_event(event, "HumanResponseEvent") and (event not in step.awaited or self.human_nodes)
        ]

    def _response_edges(self) -> Iterator[_StepEdge]:
        """The edges of a person's answers."""
        responders = self._responders()
        kind: EdgeKind = "conditional" if len({event for _, event in responders}) > 1 else "direct"
        if kind == "direct" and len(responders) > 1:
            kind = "parallel"
        for person in self.human_nodes:
            for name, event in responders:
                yield _StepEdge(person, name, kind, event if kind != "direct" else "")

    def _unsolicited_edges(self, ways: list[_StepEdge]) -> Iterator[_StepEdge]:
        """The edges of answers without a question, which may arrive wherever a run waits."""
        responders = self._responders()
        if self.human_nodes or not responders:
            return
        waiting = [name for name in self.steps if not any(way.source == name for way in ways)]
        for _, event in responders:
            self.human_nodes[event] = event
        for name, event in responders:
            yield from (_StepEdge(step, event, "conditional") for step in waiting or self.steps)
            yield _StepEdge(event, name)
        self.notes.append("no step asks for a person's answer; it is assumed to arrive where nothing else follows")

    def _failure_edges(self) -> Iterator[_StepEdge]:
        """The edges of failed steps."""
        handlers = {
            name: step for name, step in self.steps.items() if getattr(step.config, "role", "") == "catch_error"
        }
        claimed = {step for handler in handlers.values() for step in handler.config.catch_error_for_steps or ()}
        for name, handler in handlers.items():
            covered = handler.config.catch_error_for_steps
            own = covered if covered is not None else [step for step in self.steps if step not in {*handlers, *claimed}]
            yield from (
                _StepEdge(step_name, name, "conditional", "error") for step_name in own if step_name in self.steps
            )

    def _empty_edges(self, ways: list[_StepEdge]) -> Iterator[_StepEdge]:
        """The edges to collecting steps for empty lists, and for members without events."""
        joins = [name for name, step in self.steps.items() if getattr(step.config, "collection_param", None)]
        following = _successors(ways)
        for name, step in self.steps.items():
            if not getattr(step.config, "is_fan_out", False):
                continue
            branches = [way.target for way in ways if way.source == name and way.kind == "parallel"]
            between = [
                step_name for step_name in _reached_before(following, branches, joins) if step_name in self.steps
            ]
            after = {join for step_name in between for join in following.get(step_name, ()) if join in joins}
            for join in sorted(after | {branch for branch in branches if branch in joins}):
                yield _StepEdge(name, join, "conditional", "an empty list")
                quiet = [step_name for step_name in between if self.steps[step_name].may_give_nothing]
                yield from (_StepEdge(step_name, join, "conditional", "nothing came of it") for step_name in quiet)

    def _cut_edges(self, ways: list[_StepEdge]) -> Iterator[_StepEdge]:
        """The edges of branches that another branch ends."""
        following = _successors(ways)
        joins = [name for name, step in self.steps.items() if step.collects]
        for source in following:
            branches = [way.target for way in ways if way.source == source and way.kind == "parallel"]
            for node in cancelled_nodes(following, branches, joins):
                yield _StepEdge(node, END, "conditional", CONDITION)


def _successors(ways: list[_StepEdge]) -> dict[str, list[str]]:
    successors: dict[str, list[str]] = {}
    for way in ways:
        successors.setdefault(way.source, []).append(way.target)
    return successors


def _reached_before(following: dict[str, list[str]], begins: Iterable[str], joins: list[str]) -> list[str]:
    """The nodes reachable without passing a join."""
    open_ways = {node: targets for node, targets in following.items() if node not in joins}
    return [reachable_node for reachable_node in reachable_nodes(open_ways, begins) if reachable_node not in joins]
