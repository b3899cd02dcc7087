"""Summarizes the functions of one workflow step: their tools, agents, graphs and requests for human approval."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from guardagent.workflow.extraction.agent_tools import AgentTools
from guardagent.workflow.model.graph import NodeKind
from guardagent.workflow.model.unknown import Unseen
from guardagent.workflow.python_source.bodies import (
    NO_FRAMEWORK,
    FrameworkNames,
    FunctionSummary,
    MethodCall,
    definition,
    summarize,
)
from guardagent.workflow.python_source.steps import FunctionCode, is_method
from guardagent.workflow.python_source.values import CallResult, Instance, Values


class StepReader(Protocol):
    """The part of a framework that reads the objects in the functions of a step.

    Attributes:
        runs: the names of the methods that run agents and workflows.
        names: the names of the framework in function bodies.
    """

    runs: frozenset[str]
    names: FrameworkNames

    def record(self, step: StepSummary, use: MethodCall) -> None:
        """Records the effect of a method call, if the framework knows the object."""
        raise NotImplementedError

    def recognises(self, owner: object) -> bool:
        """Whether `record` fully understands the object."""
        raise NotImplementedError

    def may_run(self, kind: object) -> bool:
        """Whether objects of a class can be agents or workflows."""
        raise NotImplementedError


@dataclass
class StepSummary:
    """The summary of the functions of one step.

    Attributes:
        tools: the tools that they call, directly or through agents.
        model_chooses: they may call none of the tools.
        calls_model: they call a model.
        graphs: the workflows that they run, by name.
        bodies: the summaries of the functions.
    """

    functions: tuple[object, ...]
    tools: AgentTools = field(default_factory=AgentTools)
    model_chooses: bool = False
    calls_model: bool = False
    asks: bool = False
    always_asks: bool = False
    graphs: dict[str, Any] = field(default_factory=dict)
    bodies: list[FunctionSummary] = field(default_factory=list)

    def kind(self, *, chooses: bool) -> NodeKind:
        """Returns the kind of the node; `chooses` if the step alone decides its successor."""
        if self.tools.names:
            return "tool"
        if self.asks:
            return "human"
        if self.graphs:
            return "subgraph"
        if chooses:
            return "router"
        unread = any(not body.source_known for body in self.bodies)
        return "llm" if self.calls_model or unread else "passthrough"

    def metadata(self) -> dict[str, Any]:
        """Returns the metadata of the node."""
        file, line = definition(self.functions[0]) if self.functions else (None, None)
        asks = ("always" if self.always_asks else "sometimes") if self.asks else None
        return {
            **self.tools.metadata(),
            "file": file,
            "line": line,
            "asks": asks,
            "model_chooses": self.model_chooses and bool(self.tools.names),
        }

    def add_graph(self, graph: Any, name: str) -> None:
        """Adds a workflow that the step runs."""
        if any(one is graph for one in self.graphs.values()):
            return
        while name in self.graphs:
            name += "'"
        self.graphs[name] = graph

    def add_tool(self, name: str, functions: Iterable[object], use: MethodCall) -> None:
        """Adds a tool that the step calls; it is gated if it always asks for approval, or comes after approval."""
        gate = "" if use.after_approval else gate_of(self.tools, name, functions)
        self.tools.add(name, gate)
        self.model_chooses = self.model_chooses or not use.unconditional

    def add_unknown(self, source: str, *, chooses: bool = True) -> None:
        """Adds an object whose tools are known only at run time."""
        every = f"{source}.*"
        self.tools.add(every)
        self.model_chooses = self.model_chooses or chooses
        if every not in self.tools.unknown:
            self.tools.unknown.append(every)


def gate_of(
    box: AgentTools, name: str, functions: Iterable[object], names: FrameworkNames = NO_FRAMEWORK
) -> str | None:
    """Returns the gate of a tool: empty if its functions always ask for human approval, else None."""
    bodies = [summarize(one, names) for one in functions]
    box.opaque_calls.extend(what.inside(f"the tool {name!r}") for body in bodies for what in body.opaque_calls)
    always = bool(bodies) and all(body.always_asks for body in bodies)
    if any(body.asks for body in bodies) and not always:
        box.notes.append(f"the tool {name!r} asks for approval only under a condition, so it is not gated")
    return "" if always else None


def step_of(reader: StepReader, functions: Iterable[object]) -> StepSummary:
    """Summarizes the functions of one step."""
    step = StepSummary(tuple(functions))
    for function in step.functions:
        body = summarize(function, reader.names)
        step.bodies.append(body)
        step.tools.opaque_calls.extend(body.unlisted_calls if body.source_known else ["its code is not available"])
        step.asks, step.always_asks = step.asks or body.asks, step.always_asks or body.always_asks
        step.calls_model = step.calls_model or body.calls_model
        for use in body.method_calls:
            reader.record(step, use)
        for called in body.tools:
            step.tools.add(called.name, "" if called.after_approval else None)
            step.model_chooses = step.model_chooses or not called.unconditional
        _note_unknown(reader, step, FunctionCode(function, reader.names))
    return step


def _note_unknown(reader: StepReader, step: StepSummary, code: FunctionCode) -> None:
    """Records unknown agents that the step runs."""
    for call, owners in owners_of(code, reader.runs):
        known = [one for one in owners.known if not _is_unidentified(reader, one)]
        if owners.complete and len(known) == len(owners.known) and known:
            continue
        name = ast.unparse(call.func.value).removeprefix("self.") if isinstance(call.func, ast.Attribute) else "it"
        step.add_unknown(_last_part(name))
        step.tools.opaque_calls.append(Unseen(f"what {name!r} runs is known only at run time", call.lineno))


def _is_unidentified(reader: StepReader, one: object) -> bool:
    """Whether a value is an unknown agent or workflow."""
    if reader.recognises(one):
        return False
    kind = one.of if isinstance(one, Instance) else one.callee if isinstance(one, CallResult) else None
    return kind is not None and reader.may_run(kind)


def owners_of(code: FunctionCode, methods: frozenset[str]) -> Iterator[tuple[ast.Call, Values]]:
    """Yields the calls of methods with some names, each with the objects."""
    for body in code.bodies:
        for call in body.calls:
            if is_method(call, *methods) and isinstance(call.func, ast.Attribute):
                yield call, code.evaluator.value(call.func.value, body.scope)


def _last_part(name: str) -> str:
    return name.rpartition(".")[2] or name
