"""Stubs for the graphs, runnables and tools of LangGraph and LangChain in a program that is read as source.

If the source does not determine the name of a node, the text of the expression is its name.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable
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
from guardagent.workflow.python_source import types
from guardagent.workflow.python_source.bodies import FrameworkNames, FunctionSummary, ReadableFunction
from guardagent.workflow.python_source.builtins import BINDS
from guardagent.workflow.python_source.calls import effect_of, library_name
from guardagent.workflow.python_source.evaluator import STRUCTURED, underlying
from guardagent.workflow.python_source.modules import ProgramObject
from guardagent.workflow.python_source.stubs import FunctionStub
from guardagent.workflow.python_source.values import (
    NOTHING,
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
    union,
)

if TYPE_CHECKING:
    from guardagent.workflow.python_source.interpreter import Interpreter

_RETURNS_SELF = {"with_config", "with_retry", "with_types", "with_fallbacks", "with_listeners", "bind", "copy"}
_RUNS = {"invoke", "ainvoke", "stream", "astream", "astream_events", "astream_log", "batch", "abatch"}
_METHODS = set(
    "add_node add_edge add_conditional_edges set_conditional_entry_point add_sequence set_entry_point "
    "set_finish_point set_node_defaults validate compile".split()
)


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
    ends: dict[Any, str] | None = None
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
    default_handler: Values | None = None
    compiled_from: SourceGraph | None = None
    state_schema: object = None
    written: dict[str, dict[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.executed, self.file = self.interpreter.executing, str(self.interpreter.current_file)
        self.interpreter.graphs.append(self)

    def leave_unfinished(self, why: str) -> None:
        """Allows for further nodes, and for edges between any nodes; a compiled graph does not change any more."""
        if self.compiled_from is None:
            self.unseen.append(why)
            ends = [*self.nodes, END]
            self.edges.extend((source, target) for source in (START, *self.nodes) for target in ends)

    @property
    def builder(self) -> SourceGraph:
        return self

    def put(self, name: str, values: Values, **facts: Any) -> None:
        """Adds a node that runs some values."""
        self.nodes[name] = NodeSpec(SourceValue(values, self.interpreter), **facts)

    def choose(self, source: str, targets: list[str]) -> None:
        """Adds a choice among some nodes, which the framework makes."""
        path = SourceValue(exactly(_NEXT), self.interpreter)
        self.branches.setdefault(source, {})["choice"] = ConditionalBranch(path, {name: name for name in targets})

    def connect(self, sources: list[str] | None, targets: list[str] | None, line: int) -> None:
        """Adds edges; an unknown end stands for all nodes."""
        if sources is None or targets is None:
            self.notes.append(f"line {line}: an end of an edge is unknown; it is assumed to be any node")
        for source in sources if sources is not None else list(self.nodes):
            self.edges.extend((source, target) for target in (targets if targets is not None else list(self.nodes)))

    # Names of nodes.

    def _new_name(self, line: int) -> str:
        """Returns a name for the node that the current call adds, as its first argument is written."""
        text = self._text("node", 0)
        of_text = self.written.setdefault(text, {})
        if line not in of_text:
            of_text[line] = text if text and text not in self.nodes else f"{text} line {line}".strip()
        return of_text[line]

    def _names(self, arguments: Arguments, keyword: str, place: int) -> list[str] | None:
        """Returns the nodes that an argument of the current call names; None if they are unknown."""
        names = names_in(arguments.get(keyword, place))
        if names is None and (written := self.written.get(self._text(keyword, place))):
            return list(written.values())
        return names

    def _text(self, keyword: str, place: int) -> str:
        """The text of an argument of the current call; empty if there is none."""
        call = self.interpreter.current_call
        if call is None:
            return ""
        named = [passed.value for passed in call.keywords if passed.arg == keyword]
        expressions = named or call.args[place : place + 1]
        if not expressions or isinstance(expressions[0], ast.Starred):
            return ""
        text = ast.unparse(expressions[0])
        return text[2:-1] if isinstance(expressions[0], ast.JoinedStr) else text

    # Methods that the program calls.

    def called(self, name: str, arguments: Arguments, line: int) -> Values:
        """Returns the values of a call of a method, after its effects."""
        if name in _RETURNS_SELF:
            return exactly(self)
        if name in _RUNS:
            self.interpreter.started.append(self)
        if name not in _METHODS:
            return UNKNOWN
        if self.interpreter.depth and self.interpreter.executing:
            self.notes.append(f"line {line}: {name!r} is called under a condition; the call is assumed")
        return exactly(getattr(self, name)(arguments, line) or self)

    def add_node(self, arguments: Arguments, line: int) -> None:
        first, action = arguments.values_of("node", 0), arguments.get("action", 1)
        names = [name for name in first.known if isinstance(name, str)]
        if action is None and not names:
            action, names = first, list(map(name_of, first.known))
        if not names or (action is not None and not first.complete):
            self.unseen.append(f"line {line}: the name of a node is unknown")
            names = names or [self._new_name(line)]
        ends, defer = _destinations(arguments.get("destinations")), arguments.get("defer") or NOTHING
        handler = arguments.get("error_handler") or exactly(None)
        for name in {plain_string(name): None for name in names if name not in (START, END)}:  # LangGraph refuses these
            handled_by = f"__error_handler__{name}" if handler.known != (None,) else None
            if handled_by is not None:
                self.put(handled_by, handler, is_error_handler=True)
            self.put(name, action or UNKNOWN, ends=ends, defer=defer.known == (True,), error_handler_node=handled_by)

    def add_edge(self, arguments: Arguments, line: int) -> None:
        sources, targets = self._names(arguments, "start_key", 0), self._names(arguments, "end_key", 1)
        several = any(not isinstance(value, str) for value in arguments.values_of("start_key", 0).known)
        if several and sources is not None:  # it waits for all of them
            self.waiting_edges.extend((tuple(sources), target) for target in targets or ())
        else:
            self.connect(sources, targets, line)

    def add_conditional_edges(self, arguments: Arguments, line: int) -> None:
        sources = self._names(arguments, "source", 0)
        path, path_map = arguments.values_of("path", 1), arguments.get("path_map", 2) or exactly(None)
        if any(path_of(value).endswith(".tools_condition") for value in path.known):
            path = exactly(_NEXT)
        ends = self._ends(path) if path_map.known == (None,) else self._path_map(path_map)
        unknown_ends = ends is None and path_map.known != (None,)
        if sources is None:
            self.notes.append(f"line {line}: the source node of a condition is unknown; all nodes are assumed")
        name = name_of(path.known[0]) if path.known else "condition"
        for source in sources if sources is not None else [START, *self.nodes]:
            branches = self.branches.setdefault(source, {})
            made = SourceValue(path, self.interpreter)
            branches[f"{name}:{line}:{len(branches)}"] = ConditionalBranch(made, ends, unknown_ends)

    def set_conditional_entry_point(self, arguments: Arguments, line: int) -> None:
        self.add_conditional_edges(Arguments((exactly(START),)).then(arguments), line)

    def _ends(self, path: Values) -> dict[Any, str] | None:
        """The path map of a condition without one, as LangGraph derives it from a `Literal` return annotation."""
        if len(path.known) != 1 or not isinstance(path.known[0], Function):
            return None
        parts = types.return_types(self.interpreter, path.known[0])
        if len(parts) == 1 and parts[0].values is not None and parts[0].type is None and not parts[0].within:
            return {value: str(value) for value in parts[0].values.known}
        return None

    def _path_map(self, path_map: Values) -> dict[Any, str] | None:
        ends: dict[Any, str] = {}
        for value in path_map.known:
            is_table = isinstance(value, Table | dict)
            for place, (key, target) in enumerate(self.interpreter.pairs(value) or () if is_table else ()):
                keys = [each for each in key.known if isinstance(each, str | bool | int)] or [f"condition {place + 1}"]
                if target.strings is None:
                    return None
                single = len(keys) == len(target.strings) == 1
                ends |= {keys[0] if single else name: name for name in target.strings}
            listed = names_in(exactly(value)) if not is_table else []
            if listed is None:
                return None
            ends |= {name: name for name in listed}
        return ends if path_map.complete else None

    def add_sequence(self, arguments: Arguments, line: int) -> None:
        items = self.interpreter.ordered_elements(arguments.values_of("nodes", 0))
        if items is None:
            self.unseen.append(f"line {line}: the nodes of a sequence are unknown")
        previous: str | None = None
        for item in items or ():
            pair = self.interpreter.ordered_elements(item)
            self.add_node(Arguments(tuple(pair) if pair is not None and len(pair) == 2 else (item,)), line)
            name = list(self.nodes)[-1]
            self.edges += [] if previous is None else [(previous, name)]
            previous = name

    def set_entry_point(self, arguments: Arguments, line: int) -> None:
        self.connect([START], self._names(arguments, "key", 0), line)

    def set_finish_point(self, arguments: Arguments, line: int) -> None:
        self.connect(self._names(arguments, "key", 0), [END], line)

    def set_node_defaults(self, arguments: Arguments, _line: int) -> None:
        self.default_handler = arguments.get("error_handler") or self.default_handler

    def validate(self, arguments: Arguments, line: int) -> None:
        """Changes nothing."""

    def compile(self, arguments: Arguments, _line: int) -> SourceGraph:
        """Returns a copy of the current state; unknown interrupts are assumed to be none."""
        stops = {when: names_in(arguments.get(when)) for when in ("interrupt_before", "interrupt_after")}
        for when in (when for when, names in stops.items() if names is None):
            self.notes.append(f"line {self.line}: the source does not determine {when!r}; none is assumed")
        created = copy.copy(self)
        for name in ("nodes", "edges", "waiting_edges", "notes", "unseen"):
            setattr(created, name, copy.copy(getattr(self, name)))
        created.branches = {source: dict(branches) for source, branches in self.branches.items()}
        created.name = next(iter(arguments.values_of("name").strings or ()), "LangGraph")
        created.compiled_from = self
        for when, names in stops.items():
            setattr(created, f"{when}_nodes", "*" if names == ["*"] else names or [])
        if self.default_handler is not None:
            name = "__default_error_handler__"
            for spec in created.nodes.values():
                if not spec.is_error_handler and spec.error_handler_node is None:
                    spec.error_handler_node = name
            created.put(name, self.default_handler, is_error_handler=True)
        self.interpreter.graphs.append(created)
        return created


def _destinations(values: Values | None) -> list[str] | dict[str, str] | None:
    """The declared destinations of a node, with any labels."""
    table = values.known[0] if values is not None and len(values.known) == 1 else None
    if isinstance(table, Table):
        pairs = [(key.strings, label.strings) for key, label in table.items]
        if all(key and label and len(key) == len(label) == 1 for key, label in pairs):
            return {next(iter(key or ())): next(iter(label or ())) for key, label in pairs}
    return names_in(values)


# --- runnables and tools


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
    known = [value for values in several if values is not None for value in values.known]
    return [FunctionStub(value, interpreter) for value in known if _is_function(value)]


def _is_function(value: object) -> bool:
    return isinstance(underlying(value)[0], Function)


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


_NEXT = FixedRunnable(RunnableContents(functions=[FixedFunction(FunctionSummary(return_values=exactly("tools", END)))]))
"""A condition of the framework, which chooses one of its targets: without others, the tools or the end."""


@dataclass(eq=False)
class SourceValue(RunnableStub):
    """The runnables that an expression evaluates to."""

    values: Values
    interpreter: Interpreter

    def open(self, contents: RunnableContents) -> Iterable[object]:
        if not self.values.complete:
            contents.functions.append(_opaque())
        return [inner for value in self.values.known for inner in self._runnables(value, contents)]

    def _runnables(self, value: object, contents: RunnableContents) -> Iterable[object]:
        if isinstance(value, RunnableStub | GraphStub):
            return [value]
        if _is_function(value):
            contents.functions += functions_in(self.interpreter, exactly(value))
        elif isinstance(value, ProgramObject):
            self._object(value, contents)
        elif isinstance(value, CallResult):
            return self._created(value, contents)
        elif isinstance(value, Table):
            return [SourceValue(values, self.interpreter) for _, values in value.items]
        elif isinstance(value, ImportedName):
            if effect_of(value.path) not in {"harmless", "model"}:
                contents.functions.append(_opaque(value.path))
        elif not isinstance(value, Attribute):
            contents.functions.append(_opaque())
        return ()

    def _object(self, value: ProgramObject, contents: RunnableContents) -> None:
        """Records an object of the program: a tool by its class, or a callable."""
        if (tool := tool_of_object(value, self.interpreter)) is not None:
            contents.tools.append(tool)
            return
        methods = (self.interpreter.attribute(value, name) for name in ("__call__", "invoke", "ainvoke"))
        contents.functions += functions_in(self.interpreter, *methods)

    def _created(self, value: CallResult, contents: RunnableContents) -> Iterable[object]:
        path = _maker_of(value)
        name = path.rpartition(".")[2]
        if name == "ToolNode":
            return [SourceToolNode(value.arguments, self.interpreter)]
        if name == "RunnablePassthrough":
            contents.passes_through = not value.arguments.positional
        elif name.startswith("Runnable"):
            arguments = [*value.arguments.positional, *value.arguments.keywords.values()]
            return [SourceValue(values, self.interpreter) for values in arguments if not _is_name(values)]
        elif isinstance(value.callee, Attribute) and value.callee.name in BINDS:
            if isinstance(value.callee.owner, RunnableStub | GraphStub | CallResult):
                return [SourceValue(exactly(value.callee.owner), self.interpreter)]
            contents.models = True
        elif (effect := effect_of(path)) == "tools":
            contents.tools.append(GraphTool(library_name(path)))
        elif effect == "model":
            contents.models = contents.models or not name.endswith(("Template", "Parser"))
        else:
            contents.functions.append(_opaque(path))
        return ()


def _maker_of(value: CallResult) -> str:
    """The path of the class or function that made an object, also if its methods returned it."""
    maker = value.callee
    while isinstance(maker, Attribute) and isinstance(maker.owner, CallResult) and maker.name not in BINDS:
        maker = maker.owner.callee
    return path_of(maker)


def _is_name(values: Values) -> bool:
    return bool(values.known) and all(isinstance(value, str) for value in values.known)


@dataclass(eq=False)
class SourcePipe(RunnableStub):
    """A sequence of runnables."""

    steps: tuple[Values, ...]
    interpreter: Interpreter

    def open(self, _opened: RunnableContents) -> Iterable[object]:
        return [SourceValue(step, self.interpreter) for step in self.steps]

    def called(self, name: str, arguments: Arguments, line: int) -> Values | None:
        """Returns the result of a run of the sequence, which is that of its last step if a model answers there."""
        last = self.steps[-1].known
        answers = all(getattr(getattr(step, "callee", None), "name", "") == STRUCTURED for step in last)
        if name not in _RUNS or not self.steps[-1].complete or not answers:
            return None
        return union(self.interpreter.call(Attribute(step, name), arguments, line) for step in last)


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
    guarded: bool = False
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
    tools = [tool for value in elements.known if (tool := tool_of(value, interpreter)) is not None]
    return tools, elements.complete and all(map(_has_known_name, elements.known))


def _has_known_name(value: object) -> bool:
    """Whether the name of a tool is its own; one from a known library has the name of its class."""
    if isinstance(value, CallResult):
        is_own = isinstance(value.callee, Class) or effect_of(path_of(value.callee)) == "tools"
        return is_own or bool(_declared_name(value))
    return not isinstance(value, ImportedName | Attribute)


def _declared_name(value: CallResult) -> frozenset[str] | None:
    """The name that a call declares for the tool that it makes."""
    place = 1 if path_of(value.callee).endswith((".create_retriever_tool", ".Tool.from_function")) else None
    return value.arguments.values_of("name", place).strings


def tool_of(value: object, interpreter: Interpreter) -> GraphTool | None:
    """The tool of a list element; one defined elsewhere is named by its package and its name there."""
    if isinstance(value, SourceTool):
        return value.tool()
    if _is_function(value):
        return GraphTool(name_of(value), (FunctionStub(value, interpreter),))
    if isinstance(value, ProgramObject):
        return tool_of_object(value, interpreter)
    if isinstance(value, ImportedName):
        return GraphTool(library_name(value.path))
    if isinstance(value, CallResult):
        named, path = _declared_name(value), path_of(value.callee)
        return GraphTool(min(named) if named else library_name(path) if "." in path else path or "tool")
    return None


def tool_of_object(value: ProgramObject, interpreter: Interpreter) -> GraphTool | None:
    """The tool of an object whose class the program defines, by its `_run` methods; None if there are none."""
    names = [plain_string(name) for name in interpreter.attribute(value, "name").known if isinstance(name, str)]
    functions = functions_in(interpreter, *(interpreter.attribute(value, name) for name in ("_run", "_arun")))
    return GraphTool(names[0] if names else name_of(value), tuple(functions)) if functions else None


def name_of(value: object) -> str:
    """The default name of a node or a tool, as LangGraph derives it."""
    if isinstance(value, Function):
        return getattr(value.tree, "name", "<lambda>")
    if isinstance(value, PartialFunction):
        return name_of(value.function) if _has_self(value) else "partial"
    if isinstance(value, ProgramObject):
        return value.made_of.tree.name if isinstance(value.made_of, Class) else "Object"
    if isinstance(value, NamedFunction | SourceToolNode | GraphStub):
        return value.name
    if isinstance(value, CallResult):
        return _name_of_created(value)
    return path_of(value).rpartition(".")[2] or type(value).__name__


def _name_of_created(value: CallResult) -> str:
    if named := value.arguments.values_of("name").strings:
        return next(iter(named))
    maker = path_of(value.callee).rpartition(".")[2]
    if maker == "RunnableLambda" and value.arguments.positional and value.arguments.positional[0].known:
        return name_of(value.arguments.positional[0].known[0])
    return "tools" if maker == "ToolNode" else maker


def _has_self(value: PartialFunction) -> bool:
    """Whether a bound function is a method of an object rather than a partial function."""
    first = value.arguments.positional[0].known if value.arguments.positional else ()
    return len(value.arguments.positional) == 1 and bool(first) and isinstance(first[0], ProgramObject | Class)


def names_in(values: Values | None) -> list[str] | None:
    """The strings in values, lists and dictionary keys; None if one is unknown."""
    if values is None or values.known == (None,):
        return []
    names: list[str] = []
    for value in values.known:
        inner = [[plain_string(value)]] if isinstance(value, str) else list(map(names_in, _items(value)))
        if None in inner:
            return None
        names += [name for several in inner for name in several or ()]
    return names if values.complete and values.known else None


def _items(value: object) -> list[Values]:
    """The elements of a collection; unknown for other values."""
    if isinstance(value, Table):
        return [key for key, _ in value.items]
    if isinstance(value, Sequence):
        return list(value.items)
    return list(map(exactly, value)) if isinstance(value, list | tuple) else [UNKNOWN]
