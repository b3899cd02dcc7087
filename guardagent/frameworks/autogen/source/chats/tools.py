"""The registration of tools: for the agent that proposes calls, and for the agent that executes them."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from guardagent.frameworks.autogen.source.chats.conversations import RegisteredTool, add_to
from guardagent.workflow.extraction.objects import is_a
from guardagent.workflow.python_source.stubs import ObjectStub, converter_of
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    ImportedName,
    LiveValue,
    Values,
    exactly,
    path_of,
)

EXECUTES, PROPOSES = "_executes", "_proposes"
PACKAGE = "autogen"


@dataclass(frozen=True, eq=False)
class ToolRegistration(LiveValue):
    """The result of `agent.register_for_execution(...)` or `register_for_llm(...)`: it takes the function."""

    agent: ObjectStub
    attribute: str
    name: Values | None

    def apply(self, functions: Values) -> Values:
        register(self.agent, self.attribute, functions, self.name)
        return functions


def register(agent: ObjectStub, attribute: str, functions: Values, name: Values | None) -> None:
    """Registers a tool with an agent."""
    converter = converter_of(agent.interpreter)
    declared = [one for one in (name.known if name is not None else ()) if isinstance(one, str)]
    for one in functions.known:
        shown = converter.convert(one)
        named = declared[0] if declared else getattr(shown, "__name__", None) or getattr(shown, "name", "function")
        add_to(agent, attribute, exactly(RegisteredTool(str(named), shown)))
    if not functions.known:
        add_to(agent, attribute, exactly(RegisteredTool(str(declared[0]), None)) if declared else UNKNOWN)


def for_execution(agent: ObjectStub, arguments: Arguments, _line: int) -> Values:
    return exactly(ToolRegistration(agent, EXECUTES, arguments.get("name", 0)))


def for_llm(agent: ObjectStub, arguments: Arguments, _line: int) -> Values:
    return exactly(ToolRegistration(agent, PROPOSES, arguments.get("name")))


def function_map(agent: ObjectStub, arguments: Arguments, _line: int) -> Values:
    """`agent.register_function(function_map={...})`."""
    add_to(agent, "_function_maps", arguments.get("function_map", 0) or UNKNOWN)
    return exactly(None)


def register_function(arguments: Arguments) -> Values:
    """`register_function(f, caller=..., executor=...)`."""
    functions, name = arguments.get("f", 0) or UNKNOWN, arguments.get("name", 3)
    for attribute, place, key in ((PROPOSES, 1, "caller"), (EXECUTES, 2, "executor")):
        for agent in agents_in(arguments.get(key, place) or UNKNOWN):
            register(agent, attribute, functions, name)
    return exactly(None)


def agents_in(values: Values) -> list[ObjectStub]:
    return [one for one in values.known if isinstance(one, ObjectStub) and is_a(one, PACKAGE, "ConversableAgent")]


_OF_A_TOOL = {
    "register_tool": (EXECUTES, PROPOSES), "register_for_execution": (EXECUTES,), "register_for_llm": (PROPOSES,),
}  # fmt: skip


def passed_on(target: object, arguments: Arguments, line: int) -> None:
    """Notes that unknown code gets agents: a tool registers itself with them, other code can register any tools."""
    agents = [one for values in (*arguments.positional, *arguments.keywords.values()) for one in agents_in(values)]
    if not agents:
        return
    if isinstance(target, Attribute) and target.name in _OF_A_TOOL:
        for attribute in _OF_A_TOOL[target.name]:
            register(agents[0], attribute, exactly(target.owner), None)
    elif name := _unknown_function(target):
        for agent in agents:
            add_to(agent, "_passed_to", exactly(f"{name}(...) in line {line} can register tools"))


def _unknown_function(target: object) -> str:
    """The name of a function of another library; a class only holds the agents that it gets."""
    while isinstance(target, Attribute | CallResult):
        name = target.name if isinstance(target, Attribute) else ""
        if isinstance(target, Attribute) and isinstance(target.owner, CallResult):
            return name if name[:1].islower() else ""
        target = target.owner if isinstance(target, Attribute) and not path_of(target) else None
    path = path_of(target) if isinstance(target, ImportedName) else ""
    head, last = path.partition(".")[0], path.rpartition(".")[2]
    known = head in sys.stdlib_module_names or head == PACKAGE
    return last if last[:1].islower() and not known else ""
