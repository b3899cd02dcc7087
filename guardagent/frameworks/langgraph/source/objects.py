"""Stubs for the runnables and tools of LangGraph and LangChain in a program that is read as source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from guardagent.frameworks.langgraph.extractor.commands import ANYWHERE
from guardagent.frameworks.langgraph.extractor.nodes import (
    GraphStub,
    GraphTool,
    RunnableContents,
    RunnableStub,
    TaskStub,
)
from guardagent.workflow.python_source.bodies import FrameworkNames, FunctionSummary, ReadableFunction
from guardagent.workflow.python_source.builtins import BINDS
from guardagent.workflow.python_source.calls import effect_of
from guardagent.workflow.python_source.modules import ProgramObject
from guardagent.workflow.python_source.stubs import FunctionStub
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    Class,
    Function,
    ImportedName,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    path_of,
    plain_string,
)

if TYPE_CHECKING:
    from guardagent.workflow.python_source.interpreter import Interpreter


@dataclass(eq=False)
class FixedFunction(ReadableFunction):
    """A function that is not read: its summary is fixed."""

    fixed: FunctionSummary

    def summary(self, arguments: Arguments, names: FrameworkNames) -> FunctionSummary:  # noqa: ARG002 - always the same
        return self.fixed

    def place(self) -> tuple[str | None, int | None]:
        return None, None


def _opaque(name: str = "") -> FixedFunction:
    """Returns a function whose source is missing: it may call and return anything."""
    why = f"{name!r} is defined elsewhere" if name else "what it runs is unknown"
    return FixedFunction(FunctionSummary(constructed=(ANYWHERE,), unknown=(why,), source_known=False))


def functions_in(interpreter: Interpreter, *several: Values | None) -> list[FunctionStub]:
    """Returns the program's functions among some values."""
    known = [one for values in several if values is not None for one in values.known]
    return [FunctionStub(one, interpreter) for one in known if _is_function(one)]


def _is_function(one: object) -> bool:
    while isinstance(one, PartialFunction):
        one = one.function
    return isinstance(one, Function)


@dataclass(eq=False)
class FixedRunnable(RunnableStub):
    """A runnable with known contents."""

    contents: RunnableContents

    def open(self, contents: RunnableContents) -> Iterable[object]:
        contents.functions += self.contents.functions
        contents.hooks += self.contents.hooks
        contents.server_tools += self.contents.server_tools
        contents.middleware += self.contents.middleware
        return ()


@dataclass(eq=False)
class SourceValue(RunnableStub):
    """The runnables that an expression evaluates to."""

    values: Values
    interpreter: Interpreter

    def open(self, contents: RunnableContents) -> Iterable[object]:
        if not self.values.complete:
            contents.functions.append(_opaque())
        return [inner for one in self.values.known for inner in self._runnables(one, contents)]

    def _runnables(self, one: object, contents: RunnableContents) -> Iterable[object]:
        if isinstance(one, RunnableStub | GraphStub):
            return [one]
        if _is_function(one):
            contents.functions += functions_in(self.interpreter, exactly(one))
        elif isinstance(one, ProgramObject):
            self._object(one, contents)
        elif isinstance(one, CallResult):
            return self._created(one, contents)
        elif isinstance(one, Table):
            return [SourceValue(value, self.interpreter) for _, value in one.items]
        elif isinstance(one, ImportedName):
            if effect_of(one.path) not in {"harmless", "model"}:
                contents.functions.append(_opaque(one.path))
        elif not isinstance(one, Attribute):
            contents.functions.append(_opaque())
        return ()

    def _object(self, one: ProgramObject, contents: RunnableContents) -> None:
        """Records an object of the program: a tool by its class, or a callable."""
        if (tool := tool_of_object(one, self.interpreter)) is not None:
            contents.tools.append(tool)
            return
        methods = (self.interpreter.attribute(one, name) for name in ("__call__", "invoke", "ainvoke"))
        contents.functions += functions_in(self.interpreter, *methods)

    def _created(self, one: CallResult, contents: RunnableContents) -> Iterable[object]:
        path = _maker_of(one)
        name = path.rpartition(".")[2]
        if name == "ToolNode":
            return [SourceToolNode(one.arguments, self.interpreter)]
        if name == "RunnablePassthrough":
            contents.passes_through = not one.arguments.positional
        elif name.startswith("Runnable"):
            arguments = [*one.arguments.positional, *one.arguments.keywords.values()]
            return [SourceValue(values, self.interpreter) for values in arguments if not _is_name(values)]
        elif isinstance(one.callee, Attribute) and one.callee.name in BINDS:
            if isinstance(one.callee.owner, RunnableStub | GraphStub | CallResult):
                return [SourceValue(exactly(one.callee.owner), self.interpreter)]
            contents.models = True
        elif (effect := effect_of(path)) == "tools":
            contents.tools.append(GraphTool(_library_name(path)))
        elif effect == "model":
            contents.models = contents.models or not name.endswith(("Template", "Parser"))
        else:
            contents.functions.append(_opaque(path))
        return ()


def _maker_of(one: CallResult) -> str:
    """The path of the class or function that made an object, also if its methods returned it."""
    maker = one.callee
    while isinstance(maker, Attribute) and isinstance(maker.owner, CallResult) and maker.name not in BINDS:
        maker = maker.owner.callee
    return path_of(maker)


def _is_name(values: Values) -> bool:
    return bool(values.known) and all(isinstance(one, str) for one in values.known)


@dataclass(eq=False)
class SourcePipe(RunnableStub):
    """A sequence of runnables."""

    steps: tuple[Values, ...]
    interpreter: Interpreter

    def open(self, _opened: RunnableContents) -> Iterable[object]:
        return [SourceValue(step, self.interpreter) for step in self.steps]


@dataclass(eq=False)
class NamedFunction:
    """A function of the program that a decorator of LangGraph or LangChain names."""

    name: str
    function: object
    interpreter: Interpreter

    @property
    def func(self) -> FunctionStub:
        return FunctionStub(self.function, self.interpreter)


class SourceFlow(NamedFunction, GraphStub):
    """A functional workflow."""


class SourceTask(NamedFunction, TaskStub):
    """A task of a functional workflow."""

    def open(self, contents: RunnableContents) -> Iterable[object]:
        contents.functions.append(self.func)
        return ()


@dataclass(eq=False)
class SourceTool(NamedFunction, RunnableStub):
    """A tool created from a function."""

    options: Arguments = field(default_factory=Arguments)

    def attribute(self, name: str) -> Values | None:
        return exactly(self.name) if name == "name" else None

    def tool(self) -> GraphTool:
        fixed = isinstance(self.function, ReadableFunction)
        return GraphTool(
            self.name, (self.function,) if fixed else tuple(functions_in(self.interpreter, exactly(self.function)))
        )

    def open(self, contents: RunnableContents) -> Iterable[object]:
        contents.tools.append(self.tool())
        return ()


@dataclass(eq=False)
class SourceToolNode(RunnableStub):
    """A tool node, with the wrappers around its tool calls."""

    arguments: Arguments
    interpreter: Interpreter
    wrappers: tuple[Values, ...] = ()
    name = "tools"

    def open(self, contents: RunnableContents) -> Iterable[object]:
        contents.tool_nodes.append(self)
        tools, complete = tools_in(self.arguments.get("tools", 0), self.interpreter)
        contents.tools += tools
        contents.unseen += [] if complete else ["the source does not determine all its tools"]
        return ()

    @property
    def _wrap_tool_call(self) -> list[FunctionStub]:
        return functions_in(self.interpreter, self.arguments.get("wrap_tool_call"), *self.wrappers)

    @property
    def _awrap_tool_call(self) -> list[FunctionStub]:
        return functions_in(self.interpreter, self.arguments.get("awrap_tool_call"))


def tools_in(values: Values | None, interpreter: Interpreter) -> tuple[list[GraphTool], bool]:
    """The tools of a list, and whether these are all."""
    if values is None or values.known == (None,):
        return [], True
    elements = interpreter.elements(values)
    tools = [tool for one in elements.known if (tool := tool_of(one, interpreter)) is not None]
    return tools, elements.complete and all(map(_has_known_name, elements.known))


def _has_known_name(one: object) -> bool:
    """Whether the name of a tool is its own; one from a known library has the name of its class."""
    if isinstance(one, CallResult):
        return isinstance(one.callee, Class) or effect_of(path_of(one.callee)) == "tools" or bool(_declared_name(one))
    return not isinstance(one, ImportedName | Attribute)


def _declared_name(one: CallResult) -> frozenset[str] | None:
    """The name that a call declares for the tool that it makes."""
    place = 1 if path_of(one.callee).endswith((".create_retriever_tool", ".Tool.from_function")) else None
    return (one.arguments.get("name", place) or UNKNOWN).strings


def _library_name(path: str) -> str:
    return f"{path.partition('.')[0]}.{path.rpartition('.')[2]}"


def tool_of(one: object, interpreter: Interpreter) -> GraphTool | None:
    """The tool of a list element; one defined elsewhere is named by its package and its name there."""
    if isinstance(one, SourceTool):
        return one.tool()
    if _is_function(one):
        return GraphTool(name_of(one), (FunctionStub(one, interpreter),))
    if isinstance(one, ProgramObject):
        return tool_of_object(one, interpreter)
    if isinstance(one, ImportedName):
        return GraphTool(_library_name(one.path))
    if isinstance(one, CallResult):
        named, path = _declared_name(one), path_of(one.callee)
        return GraphTool(min(named) if named else _library_name(path) if "." in path else path or "tool")
    return None


def tool_of_object(one: ProgramObject, interpreter: Interpreter) -> GraphTool | None:
    """The tool of an object whose class the program defines, by its `_run` methods; None if there are none."""
    names = [plain_string(name) for name in interpreter.attribute(one, "name").known if isinstance(name, str)]
    functions = functions_in(interpreter, *(interpreter.attribute(one, name) for name in ("_run", "_arun")))
    return GraphTool(names[0] if names else name_of(one), tuple(functions)) if functions else None


def name_of(one: object) -> str:
    """The default name of a node or a tool, as LangGraph derives it."""
    if isinstance(one, Function):
        return getattr(one.tree, "name", "<lambda>")
    if isinstance(one, PartialFunction):
        return name_of(one.function) if _has_self(one) else "partial"
    if isinstance(one, ProgramObject):
        return one.made_of.tree.name if isinstance(one.made_of, Class) else "Object"
    if isinstance(one, NamedFunction | SourceToolNode | GraphStub):
        return one.name
    if isinstance(one, CallResult):
        return _name_of_created(one)
    return path_of(one).rpartition(".")[2] or type(one).__name__


def _name_of_created(one: CallResult) -> str:
    if named := (one.arguments.get("name") or UNKNOWN).strings:
        return next(iter(named))
    maker = path_of(one.callee).rpartition(".")[2]
    if maker == "RunnableLambda" and one.arguments.positional and one.arguments.positional[0].known:
        return name_of(one.arguments.positional[0].known[0])
    return "tools" if maker == "ToolNode" else maker


def _has_self(one: PartialFunction) -> bool:
    """Whether a bound function is a method of an object rather than a partial function."""
    first = one.arguments.positional[0].known if one.arguments.positional else ()
    return len(one.arguments.positional) == 1 and bool(first) and isinstance(first[0], ProgramObject | Class)


def names_in(values: Values | None) -> list[str] | None:
    """The strings in values, lists and dictionary keys; None if one is unknown."""
    if values is None or values.known == (None,):
        return []
    names: list[str] = []
    for one in values.known:
        inner = [[plain_string(one)]] if isinstance(one, str) else list(map(names_in, _items(one)))
        if None in inner:
            return None
        names += [name for several in inner for name in several or ()]
    return names if values.complete and values.known else None


def _items(one: object) -> list[Values]:
    """The elements of a collection; unknown for other values."""
    if isinstance(one, Table):
        return [key for key, _ in one.items]
    if isinstance(one, Sequence):
        return list(one.items)
    return list(map(exactly, one)) if isinstance(one, list | tuple) else [UNKNOWN]
