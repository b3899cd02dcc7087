"""The agents of LlamaIndex: their tools and hand-offs."""

from __future__ import annotations

from typing import Any

from guardagent.frameworks.llama_index.extractor.steps import WORDS, EventCode, is_workflow, of_library
from guardagent.workflow.extraction.objects import AgentTools, UnknownValue, flattened
from guardagent.workflow.python_source.bodies import ReadableFunction
from guardagent.workflow.python_source.steps import gate_of, owners_of
from guardagent.workflow.python_source.values import CallResult, ImportedName, Instance, is_member_of

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
    found = getattr(tool, "_real_fn", None) or getattr(tool, "_async_fn", None) or getattr(tool, "_fn", None)
    return [found] if found is not None else []


def toolbox(agent: Any) -> AgentTools:
    """The tools of an agent."""
    box = AgentTools()
    for tool in flattened(agent.tools or ()):
        if isinstance(tool, UnknownValue):
            _unknown_tool(box, tool)
            continue
        functions = functions_of(tool)
        box.add(name_of(tool), gate_of(box, name_of(tool), functions, WORDS))
        for function in functions:
            _record_runs(box, name_of(tool), function)
    if agent.tool_retriever is not None:
        box.add("retriever.*")
        box.unknown.append("retriever.*")
    return box


def _unknown_tool(box: AgentTools, tool: UnknownValue) -> None:
    """Adds a tool that is defined elsewhere: a function of that name, or several."""
    for name in ([tool.name] if tool.is_function else []) + [f"{tool.name}.*"]:
        box.add(name)
    box.unknown += [f"{tool.name}.*"] if f"{tool.name}.*" not in box.unknown else []


def _record_runs(box: AgentTools, name: str, function: Any) -> None:
    """Records the workflows and agents that a tool's function runs."""
    for _, owners in owners_of(EventCode(function), RUNS):
        box.runs += [(name, one) for one in owners.known if is_workflow(one) and not isinstance(one, type)]
        if not owners.complete or not owners.known or any(map(_makes_agent, owners.known)):
            box.notes.append(f"the workflow that the tool {name!r} runs is unknown")
            box.add(f"{name}.*")
            box.unknown.append(f"{name}.*")


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
    others = [one for one in team.agents.values() if one is not agent]
    return [one for one in others if allowed is None or one.name in allowed]


def is_silent(workflow: Any) -> bool:
    """Whether an agent or a team has no tools, and so needs no nodes."""
    agents = workflow.agents.values() if is_team(workflow) else [workflow] if is_agent(workflow) else None
    return agents is not None and not any(toolbox(one).names for one in agents)
