"""The tools that one call in a function runs, if they are not defined in the program.

A tool is named by its declared name, else `package.Class` or `package.function`. The declared name of a tool from a
module that cannot be read is unknown, so the call is also reported as unseen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FunctionType

from guardagent.workflow.model.unknown import Unseen
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.functions.libraries import effect_of
from guardagent.workflow.python_source.values import (
    NOTHING,
    CallResult,
    Function,
    ImportedName,
    NameScope,
    Stub,
    Values,
    path_of,
    plain_string,
)

AGENT_TOOLS = {
    "create_react_agent": 1, "create_agent": 1, "create_tool_calling_agent": 1, "create_openai_tools_agent": 1,
    "create_structured_chat_agent": 1, "initialize_agent": 0, "AgentExecutor": 1, "ToolNode": 0, "Agent": None,
    "Task": None, "LlmAgent": None, "AssistantAgent": None, "FunctionAgent": None, "ReActAgent": None,
    "CodeAgent": 0, "ToolCallingAgent": 0,
}  # fmt: skip
"""The makers of agents, each with the position of its tools; None: by keyword only."""
_PARTS = ("agent", "agents", "tasks")
_MOST_DEPTH = 5


@dataclass
class LibraryTools:
    """The tools that a call runs.

    Attributes:
        names: the tools.
        unseen: why there can be others.
        model_chooses: an agent chooses among them.
        known: the object that is called is known, so that there are no others.
    """

    names: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    model_chooses: bool = False
    known: bool = False


def tools_run_by(
    call: ast.Call, evaluator: Evaluator, scope: NameScope, runs: frozenset[str], own: tuple[str, ...] = ()
) -> LibraryTools:
    """Returns the tools that a call of a method runs.

    Args:
        call: the call.
        evaluator: evaluates the code around it.
        scope: the names there.
        runs: the methods that run tools and agents.
        own: the packages whose agents the extractor reads itself.
    """
    found = LibraryTools()
    if not isinstance(call.func, ast.Attribute):
        return found
    owner = evaluator.value(call.func.value, scope)
    if call.func.attr == "call_tool" and call.args:
        _called_by_name(evaluator.value(call.args[0], scope), found)
        return found
    for one in owner.known:
        path = _path(one)
        if is_readable(one) and path.partition(".")[0] in own:
            found.known = True
        elif call.func.attr in runs or effect_of(path) == "tools":
            _run(one, path, found, evaluator, 0)
    found.known = found.known and owner.complete and all(_is_read(one) for one in owner.known)
    return found


def _called_by_name(names: Values, found: LibraryTools) -> None:
    """Records the tools of a server, which a call names."""
    found.names += [plain_string(one) for one in names.known if isinstance(one, str)]
    found.known = bool(found.names) and names.strings is not None


def _path(one: object) -> str:
    return path_of(one.callee if isinstance(one, CallResult) else one)


def _is_read(one: object) -> bool:
    return isinstance(one, CallResult | ImportedName)


def _run(one: object, path: str, found: LibraryTools, evaluator: Evaluator, depth: int) -> None:
    """Records what running an object calls."""
    if isinstance(one, CallResult) and effect_of(path) == "agents" and is_readable(one):
        found.known, found.model_chooses = True, not path.endswith(".ToolNode")
        _agent(one, found, evaluator, depth)
    elif effect_of(path) == "tools":
        found.known = True
        found.names.append(_name(path))
    elif isinstance(one, ImportedName) and effect_of(path) is None:
        found.names.append(_name(path))
        found.unseen.append(f"the declared name of {path!r}, which is defined elsewhere")


def is_readable(one: object) -> bool:
    """Whether an object is an agent whose tools its construction shows."""
    maker = _path(one).rpartition(".")[2]
    return isinstance(one, CallResult) and (maker in AGENT_TOOLS or maker == "Crew")


def _name(path: str) -> str:
    return f"{path.partition('.')[0]}.{path.rpartition('.')[2]}"


def _agent(made: CallResult, found: LibraryTools, evaluator: Evaluator, depth: int) -> None:
    """Records the tools that the code gives an agent, and those of the agents in it."""
    maker = _path(made).rpartition(".")[2]
    tools = made.arguments.get("tools", AGENT_TOOLS.get(maker))
    _elements(tools, found, evaluator, depth, "tools")
    parts = [part for part in _PARTS if made.arguments.get(part) is not None]
    for part in parts:
        _elements(made.arguments.get(part), found, evaluator, depth, part)
    if maker == "Crew" and not any(evaluator.elements(made.arguments.get(part) or NOTHING).known for part in parts):
        found.unseen.append("no agent of its crew is known")


def _elements(values: Values | None, found: LibraryTools, evaluator: Evaluator, depth: int, what: str) -> None:
    if values is None or values.known == (None,):
        return
    elements = values if what == "agent" else evaluator.elements(values)
    if not elements.complete:
        found.unseen.append(f"not all its {what} are known")
    for one in elements.known:
        _element(one, found, evaluator, depth, what)


def _element(one: object, found: LibraryTools, evaluator: Evaluator, depth: int, what: str) -> None:
    if what != "tools":
        if isinstance(one, CallResult) and effect_of(_path(one)) == "agents" and depth < _MOST_DEPTH:
            _agent(one, found, evaluator, depth + 1)
        elif not isinstance(one, Stub):
            found.unseen.append(f"not all its {what} are known")
        return
    names = list(_names_of(one))
    found.names += names
    if not names or (effect_of(_path(one)) is None and isinstance(one, ImportedName | CallResult)):
        known = isinstance(one, Stub)  # its extractor names it
        found.unseen += (
            [] if known else [f"the declared name of {_path(one) or 'a tool'!r}, which is defined elsewhere"]
        )


def _names_of(one: object) -> Iterator[str]:
    """Yields the name of a tool in a list."""
    if isinstance(one, Function):
        yield getattr(one.tree, "name", "lambda")
    elif isinstance(one, FunctionType):
        yield one.__name__
    elif path := _path(one):
        yield _name(path)


def unseen_of(found: LibraryTools, line: int, file: str) -> list[Unseen]:
    """Returns what a call can run besides the named tools."""
    return [Unseen(reason, line, file) for reason in dict.fromkeys(found.unseen)]
