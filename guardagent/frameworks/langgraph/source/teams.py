"""Builds the graphs of teams of agents: a supervisor with its agents, or a swarm that hands over among its agents."""

from __future__ import annotations

import re
from dataclasses import dataclass

from guardagent.frameworks.langgraph.extractor.runnables import GraphTool
from guardagent.frameworks.langgraph.source import agents as langgraph_agents
from guardagent.frameworks.langgraph.source.objects import (
    ConditionalBranch,
    NodeSpec,
    SourceGraph,
    SourceTool,
    SourceValue,
    name_of,
)
from guardagent.workflow.model.graph import START
from guardagent.workflow.python_source.bodies import FrameworkNames, FunctionSummary, ReadableFunction
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    CallResult,
    ImportedName,
    Sequence,
    Values,
    exactly,
)

TEAMS = {"create_supervisor", "create_swarm"}


@dataclass(eq=False)
class HandOver(ReadableFunction):
    """The function of a tool that hands over to another agent."""

    target: Values

    def summary(self, arguments: Arguments, names: FrameworkNames) -> FunctionSummary:  # noqa: ARG002 - always the same
        keywords = {"goto": self.target, "graph": exactly("__parent__")}
        return FunctionSummary(
            constructed=(CallResult(ImportedName("langgraph.types.Command"), Arguments(keywords=keywords)),)
        )

    def place(self) -> tuple[str | None, int | None]:
        return None, None


@dataclass(eq=False)
class HandOverTool(SourceTool):
    """A tool that hands over to another agent."""

    def tool(self) -> GraphTool:
        return GraphTool(self.name, (self.function,))


def hand_over_tool(interpreter: Interpreter, arguments: Arguments) -> HandOverTool:
    """Returns the tool of `create_handoff_tool`."""
    target = arguments.get("agent_name") or UNKNOWN
    named = (arguments.get("name") or UNKNOWN).strings or target.strings or {"agent"}
    name = re.sub(r"\s+", "_", min(named).strip()).lower()
    if not (arguments.get("name") or UNKNOWN).strings:
        name = f"transfer_to_{name}"
    return HandOverTool(name, HandOver(target), interpreter)


def team(interpreter: Interpreter, maker: str, arguments: Arguments, line: int) -> SourceGraph:
    """Returns the graph of `create_supervisor` or `create_swarm`, which is not compiled yet."""
    agents = interpreter.elements(arguments.get("agents", 0) or UNKNOWN)
    made = {name_of(one): one for one in agents.known}
    leader = _leader(interpreter, made, arguments, line) if maker == "create_supervisor" else None
    graph = SourceGraph(interpreter, line=line, file=str(interpreter.current_file))
    if not agents.complete:
        graph.unseen.append(f"line {line}: the source does not determine all agents of a team")
    if leader is not None:
        graph.nodes[leader.name] = NodeSpec(SourceValue(exactly(leader), interpreter))
        graph.edges.append((START, leader.name))
    for name, one in made.items():
        graph.nodes[name] = NodeSpec(SourceValue(exactly(one), interpreter))
        if leader is not None:
            graph.edges.append((name, leader.name))
    if leader is None:
        start_router(interpreter, graph, list(made))
    return graph


def start_router(interpreter: Interpreter, graph: SourceGraph, names: list[str]) -> None:
    """Starts a graph at the agent that was active last."""
    path = SourceValue(exactly(langgraph_agents.MiddlewareHook()), interpreter)
    graph.branches.setdefault(START, {})["active agent"] = ConditionalBranch(path, {name: name for name in names})


def _leader(interpreter: Interpreter, made: dict[str, object], arguments: Arguments, line: int) -> SourceGraph:
    """The agent that supervises the others: it has a tool to hand over to each."""
    tools = interpreter.elements(arguments.get("tools") or exactly(Sequence(())))
    handing = [hand_over_tool(interpreter, Arguments(keywords={"agent_name": exactly(name)})) for name in made]
    own = any(isinstance(one, HandOverTool) for one in tools.known)  # its own tools to hand over replace these
    every = (*tools.known, *(() if own else handing))
    named = arguments.get("supervisor_name") or exactly("supervisor")
    keywords = {
        "tools": Values((Sequence(tuple(map(exactly, every)), ordered=False),), tools.complete),
        "name": named if named.strings else exactly("supervisor"),
    }
    return langgraph_agents.agent(interpreter, "create_react_agent", Arguments(keywords=keywords), line)
