"""Stubs for the objects of LangGraph and LangChain in a program that is read as source."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from guardagent.frameworks.langgraph.extractor.commands import ANYWHERE
from guardagent.frameworks.langgraph.extractor.nodes import (
    GraphStub,
    GraphTool,
    RunnableContents,
    RunnableStub,
    TaskStub,
)
from guardagent.workflow.model.graph import END, START
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
    path_of,
    plain_string,
)

if TYPE_CHECKING:
    from guardagent.workflow.python_source.interpreter import Interpreter

_MODELS = ("langchain", "langchain_core", "langchain_openai", "langchain_anthropic")


@dataclass
class NodeSpec:
    """A node of a StateGraph."""

    runnable: SourceValue
    ends: list[str] | dict[str, str] | None = None
    defer: bool = False
    error_handler_node: str | None = None
    is_error_handler: bool = False


@dataclass
class ConditionalBranch:
    """A condition that routes from a node; it may have a path map that is unknown."""

    path: SourceValue
    ends: dict[object, str] | None = None
    unknown_ends: bool = False


@dataclass(eq=False)
class SourceGraph(GraphStub):
    """A StateGraph, as built so far by the code.

    Attributes:
        written: the nodes whose names are unknown, by the text of the name and the line.
    """

    interpreter: Interpreter
    line: int = 0
    name: str = "LangGraph"
    nodes: dict[str, NodeSpec] = field(default_factory=dict)
    edges: list[tuple[str, str]] = field(default_factory=list)
    waiting_edges: list[tuple[tuple[str, ...], str]] = field(default_factory=list)
    branches: dict[str, dict[str, ConditionalBranch]] = field(default_factory=dict)
    interrupt_before_nodes: Any = ()
    interrupt_after_nodes: Any = ()
    notes: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    default_handler: SourceValue | None = None
    file: str = ""
    compiled_from: SourceGraph | None = None
    written: dict[str, dict[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.executed = self.interpreter.executing
        self.interpreter.graphs.append(self)

    def leave_unfinished(self, why: str) -> None:
        """Allows for further nodes, and for edges between any nodes; a compiled graph does not change any more."""
        if self.compiled_from is not None:
            return
        self.unseen.append(why)
        ends = [*self.nodes, END]
        self.edges.extend((source, target) for source in (START, *self.nodes) for target in ends)

    @property
    def builder(self) -> SourceGraph:
        return self

    def connect(self, sources: list[str] | None, targets: list[str] | None, line: int) -> None:
        """Adds edges; an unknown end stands for all nodes."""
        if sources is None or targets is None:
            self.notes.append(f"line {line}: an end of an edge is unknown; it is assumed to be any node")
        for source in sources if sources is not None else list(self.nodes):
            for target in targets if targets is not None else list(self.nodes):
                self.edges.append((source, target))

    def join(self, sources: list[str] | None, targets: list[str] | None, line: int) -> None:
        """Adds an edge that waits for several nodes."""
        if sources is None:
            self.connect(None, targets, line)
        else:
            self.waiting_edges.extend((tuple(sources), target) for target in targets or ())

    def compiled(self, *, before: list[str], after: list[str], name: str) -> SourceGraph:
        """The compiled graph: a copy of the current state."""
        created = copy.copy(self)
        self.interpreter.graphs.append(created)
        created.nodes, created.edges, created.waiting_edges = (
            dict(self.nodes),
            list(self.edges),
            list(self.waiting_edges),
        )
        created.branches = {source: dict(branches) for source, branches in self.branches.items()}
        created.notes, created.unseen = list(self.notes), list(self.unseen)
        created.name, created.compiled_from = name, self
        created.interrupt_before_nodes = "*" if before == ["*"] else before
        created.interrupt_after_nodes = "*" if after == ["*"] else after
        if self.default_handler is not None:
            created.handle_errors(self.default_handler)
        self.interpreter.graphs.append(created)
        return created

    def handle_errors(self, handler: SourceValue) -> None:
        name = "__default_error_handler__"
        for spec in self.nodes.values():
            if not spec.is_error_handler and spec.error_handler_node is None:
                spec.error_handler_node = name
        self.nodes[name] = NodeSpec(handler, is_error_handler=True)

    def parts(self) -> Iterator[object]:
        """The graphs among its nodes, and the graph that it was compiled from."""
        yield from [self.compiled_from] if self.compiled_from is not None else []
        for spec in self.nodes.values():
            yield from (one for one in spec.runnable.values.known if isinstance(one, GraphStub))


@dataclass(eq=False)
class OpaqueFunction(ReadableFunction):
    """A function whose source is missing: it may call and return anything."""

    name: str

    def summary(self, arguments: Arguments, names: FrameworkNames) -> FunctionSummary:  # noqa: ARG002 - the source is missing
        why = f"{self.name!r} is defined elsewhere" if self.name else "what it runs is unknown"
        return FunctionSummary(constructed=(ANYWHERE,), unknown=(why,), source_known=False)

    def place(self) -> tuple[str | None, int | None]:
        return None, None


@dataclass(eq=False)
class SourceValue(RunnableStub):
    """The runnables that an expression evaluates to."""

    values: Values
    interpreter: Interpreter

    def open(self, contents: RunnableContents) -> Iterable[object]:
        if not self.values.complete:
            contents.functions.append(OpaqueFunction(""))
        return [inner for one in self.values.known for inner in self._runnables(one, contents)]

    def _runnables(self, one: object, contents: RunnableContents) -> Iterable[object]:
        if isinstance(one, RunnableStub | GraphStub):
            return [one]
        if _is_function(one):
            contents.functions.append(FunctionStub(one, self.interpreter))
        elif isinstance(one, ProgramObject):
            self._object(one, contents)
        elif isinstance(one, CallResult):
            return self._created(one, contents)
        elif isinstance(one, Table):
            return [SourceValue(value, self.interpreter) for _, value in one.items]
        elif isinstance(one, ImportedName):
            if effect_of(one.path) not in {"harmless", "model"}:
                contents.functions.append(OpaqueFunction(one.path))
        elif not isinstance(one, Attribute):
            contents.functions.append(OpaqueFunction(""))
        return ()

    def _object(self, one: ProgramObject, contents: RunnableContents) -> None:
        """Records an object of the program: a tool by its class, or a callable."""
        tool = tool_of_object(one, self.interpreter)
        if tool is not None:
            contents.tools.append(tool)
            return
        for name in ("__call__", "invoke", "ainvoke"):
            for method in self.interpreter.attribute(one, name).known:
                if _is_function(method):
                    contents.functions.append(FunctionStub(method, self.interpreter))

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
            if _is_runnable(one.callee.owner):
                return [SourceValue(Values((one.callee.owner,)), self.interpreter)]
            contents.models = True
        elif effect_of(path) == "tools":
            contents.tools.append(GraphTool(_library_name(path)))
        elif effect_of(path) == "model":
            contents.models = contents.models or not name.endswith(("Template", "Parser"))
        else:
            contents.functions.append(OpaqueFunction(path))
        return ()


def _maker_of(one: CallResult) -> str:
    """The path of the class or function that made an object, also if its methods returned it."""
    maker = one.callee
    while isinstance(maker, Attribute) and isinstance(maker.owner, CallResult) and maker.name not in BINDS:
        maker = maker.owner.callee
    return path_of(maker)


def _is_name(values: Values) -> bool:
    return bool(values.known) and all(isinstance(one, str) for one in values.known)


def _is_runnable(one: object) -> bool:
    return isinstance(one, RunnableStub | GraphStub | CallResult)


def _is_function(one: object) -> bool:
    while isinstance(one, PartialFunction):
        one = one.function
    return isinstance(one, Function)


@dataclass(eq=False)
class SourcePipe(RunnableStub):
    """A sequence of runnables."""

    steps: tuple[Values, ...]
    interpreter: Interpreter

    def open(self, _opened: RunnableContents) -> Iterable[object]:
        return [SourceValue(step, self.interpreter) for step in self.steps]


@dataclass(eq=False)
class SourceTool(RunnableStub):
    """A tool created from a function."""

    name: str
    function: object
    interpreter: Interpreter
    options: Arguments = field(default_factory=Arguments)

    def attribute(self, name: str) -> Values | None:
        return Values((self.name,)) if name == "name" else None

    def tool(self) -> GraphTool:
        if isinstance(self.function, ReadableFunction):
            return GraphTool(self.name, (self.function,))
        return GraphTool(
            self.name, (FunctionStub(self.function, self.interpreter),) if _is_function(self.function) else ()
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

    def open(self, contents: RunnableContents) -> Iterable[object]:
        contents.tool_nodes.append(self)
        tools, complete = tools_in(self.arguments.get("tools", 0), self.interpreter)
        contents.tools.extend(tools)
        if not complete:
            contents.unseen.append("the source does not determine all its tools")
        return ()

    def _wrapper(self, name: str) -> list[FunctionStub]:
        wrapper_values = [self.arguments.get(name) or Values(), *(self.wrappers if name == "wrap_tool_call" else ())]
        return [
            FunctionStub(one, self.interpreter)
            for values in wrapper_values
            for one in values.known
            if _is_function(one)
        ]

    @property
    def _wrap_tool_call(self) -> list[FunctionStub]:
        return self._wrapper("wrap_tool_call")

    @property
    def _awrap_tool_call(self) -> list[FunctionStub]:
        return self._wrapper("awrap_tool_call")


def tools_in(values: Values | None, interpreter: Interpreter) -> tuple[list[GraphTool], bool]:
    """The tools of a list, and whether these are all."""
    if values is None or values.known == (None,):
        return [], True
    elements = interpreter.elements(values)
    tools = [tool for one in elements.known if (tool := tool_of(one, interpreter)) is not None]
    return tools, elements.complete and all(_has_known_name(one) for one in elements.known)


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
    methods = [method for name in ("_run", "_arun") for method in interpreter.attribute(one, name).known]
    functions = tuple(FunctionStub(method, interpreter) for method in methods if _is_function(method))
    return GraphTool(names[0] if names else name_of(one), functions) if functions else None


@dataclass(eq=False)
class SourceTask(TaskStub):
    """A task of a functional workflow."""

    name: str
    function: object
    interpreter: Interpreter

    @property
    def func(self) -> FunctionStub:  # type: ignore[override]
        return FunctionStub(self.function, self.interpreter)

    def open(self, contents: RunnableContents) -> Iterable[object]:
        contents.functions.append(self.func)
        return ()


@dataclass(eq=False)
class SourceFlow(GraphStub):
    """A functional workflow."""

    name: str
    function: object
    interpreter: Interpreter

    @property
    def code(self) -> FunctionStub:
        return FunctionStub(self.function, self.interpreter)


def name_of(one: object) -> str:
    """The default name of a node or a tool, as LangGraph derives it."""
    if isinstance(one, Function):
        return getattr(one.tree, "name", "<lambda>")
    if isinstance(one, PartialFunction):
        return name_of(one.function) if _has_self(one) else "partial"
    if isinstance(one, ProgramObject):
        return one.made_of.tree.name if isinstance(one.made_of, Class) else "Object"
    if isinstance(one, SourceTool | SourceTask | SourceGraph | SourceFlow):
        return one.name
    if isinstance(one, SourceToolNode):
        return "tools"
    if isinstance(one, CallResult):
        return _name_of_created(one)
    return path_of(one).rpartition(".")[2] or type(one).__name__


def _name_of_created(one: CallResult) -> str:
    named = (one.arguments.get("name") or UNKNOWN).strings
    if named:
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
    found: list[str] = []
    for one in values.known:
        if isinstance(one, str):
            found.append(plain_string(one))
            continue
        inner = [names_in(item) for item in _items(one)]
        if None in inner or not isinstance(one, Sequence | Table | list | tuple):
            return None
        found.extend(name for names in inner for name in names or ())
    return found if values.complete and values.known else None


def _items(one: object) -> list[Values]:
    if isinstance(one, Table):
        return [key for key, _ in one.items]
    if isinstance(one, Sequence):
        return list(one.items)
    return [Values((item,)) for item in one] if isinstance(one, list | tuple) else []
