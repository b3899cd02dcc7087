"""Summarizes function bodies: their calls, their paths, their requests for human approval and their results.

Nothing is run. If the source of a function is not available, its compiled code still has the names that it uses.

A summary tells the extractor of a framework

- the possible calls and their order, through branches, loops and exceptions: `Flow` follows the paths, and
  `FunctionSummary.method_calls` has the object of each method call, whether every run reaches it, and whether every
  path to it asks for human approval;
- the possible results: `return_values`, the declared `return_types`, and the values of each return statement (`ends`);
- the objects that the function can send, emit or route to: those that it constructs (`constructed`);
- the calls that could not be seen: `opaque_calls`. They are always reported, since they may run anything.

A framework contributes its names (`FrameworkNames`): the functions that ask for human approval, its own packages, and
the functions whose results its extractor reads. It also interprets the objects that a body uses, constructs and
returns. Nothing here depends on a framework; only `calls.py` names packages that run agents or tools.

`outcomes.py` evaluates the results branch by branch; `steps.py` returns the code itself for extractors that read
further, and summarizes the functions of one workflow step.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import itertools
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from guardagent.workflow.model.graph import Unseen
from guardagent.workflow.python_source import calls, types
from guardagent.workflow.python_source.builtins import call_method, wrapped_by
from guardagent.workflow.python_source.calls import (
    RUN_METHODS,
    foreign,
    is_opaque,
    is_readable,
    tools_run_by,
    unseen_of,
)
from guardagent.workflow.python_source.evaluator import Evaluator, is_applied, underlying
from guardagent.workflow.python_source.paths import BranchChoice, PathWalker
from guardagent.workflow.python_source.scopes import Comprehension, LiveScope, LoopScope, statements
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    Class,
    Function,
    FunctionTree,
    ImportedName,
    Instance,
    NameScope,
    PartialFunction,
    Sequence,
    Stub,
    Values,
    exactly,
    path_of,
    plain_string,
)


@dataclass(frozen=True)
class FlowPoint:
    """A point in a function.

    Attributes:
        after_approval: every path to this point asks for human approval.
        unconditional: every run of the function reaches this point, unless it raises.
        last: the marked calls that can be the last one before this point; None is the beginning of the function.
    """

    after_approval: bool = False
    unconditional: bool = True
    last: frozenset[int | None] = frozenset({None})


class Flow(PathWalker[FlowPoint]):
    """Follows the paths through a function.

    Args:
        asks: whether a call always asks for human approval.
        marks: the calls whose order is recorded.

    Attributes:
        calls: the point of each call, by the identity of its node.
        exits: the points where the function returns or ends.
        returns: by the identity of a return statement, whether every path to it asks for human approval.
        order: pairs of marked calls that can follow each other, by the identities of their nodes.
    """

    def __init__(
        self,
        tree: FunctionTree,
        asks: Callable[[ast.Call], bool],
        marks: Callable[[ast.Call], bool] = lambda _call: False,
    ) -> None:
        super().__init__()
        self._asks, self._marks = asks, marks
        self.calls: dict[int, FlowPoint] = {}
        self.returns: dict[int, bool] = {}
        self.order: set[tuple[int | None, int]] = set()
        self.exits = self.function(tree, None, FlowPoint())

    @property
    def always_asks(self) -> bool:
        """Whether every run that does not raise asks for human approval."""
        return bool(self.exits) and all(point.after_approval for point in self.exits)

    def join(self, before: FlowPoint, ends: list[FlowPoint], *, whole: bool) -> FlowPoint:
        """Joins points: approval counts only if it is on every path."""
        last = frozenset[int | None]().union(*(end.last for end in ends))
        return FlowPoint(all(end.after_approval for end in ends), before.unconditional and whole, last)

    def loop_state(self, begin: FlowPoint, end: FlowPoint, rounds: int) -> FlowPoint | None:  # noqa: ARG002 - repeats until nothing changes
        return None if end.last <= begin.last else replace(begin, last=begin.last | end.last)

    def after_choice(self, choice: BranchChoice, state: FlowPoint) -> FlowPoint:  # noqa: ARG002 - for any choice
        return replace(state, unconditional=False)

    def on_return(self, node: ast.Return, state: FlowPoint) -> None:
        self.returns[id(node)] = state.after_approval and self.returns.get(id(node), True)

    def after_call(self, call: ast.Call, state: FlowPoint) -> FlowPoint:
        before = self.calls.get(id(call), replace(state, unconditional=False))
        self.calls[id(call)] = FlowPoint(
            before.after_approval and state.after_approval, before.unconditional or state.unconditional
        )
        after_approval = state.after_approval or self._asks(call)
        if not self._marks(call):
            return replace(state, after_approval=after_approval)
        self.order |= {(last, id(call)) for last in state.last}
        after = replace(state, after_approval=after_approval, last=frozenset({id(call)}))
        self.on_raise_point(after)
        return after


_MORE: Any = object()


class KnownStrings(NamedTuple):
    """Strings; there are no others if `complete`."""

    known: frozenset[str]
    complete: bool

    @classmethod
    def of(cls, values: Values) -> KnownStrings:
        every = list(flat(values))
        return cls(
            frozenset(plain_string(value) for value in every if isinstance(value, str)), all(map(_is_determined, every))
        )


def flat(values: Values) -> Iterator[object]:
    """Yields all values and the elements of lists, and a marker if there can be other values."""
    for value in values.known:
        if isinstance(value, Sequence):
            for item in value.items:
                yield from flat(item)
        elif isinstance(value, list | tuple | set | frozenset):
            for item in value:
                yield from flat(exactly(item))
        else:
            yield value
    if not values.complete:
        yield _MORE


def _is_determined(value: object) -> bool:
    """Whether a value is certainly not an unknown string."""
    if value is _MORE or isinstance(value, Instance | ImportedName | PartialFunction | Attribute):
        return False
    if isinstance(value, CallResult):
        kind = value.callee
        if isinstance(kind, ImportedName):
            return kind.path.rpartition(".")[2][:1].isupper()
        return isinstance(kind, Class) or (isinstance(kind, type) and not issubclass(kind, str))
    return True


# --- summaries

MOST_VISITS = 2_000
_NOT_FOLLOWED = Unseen("its code is not followed to the end, as the budget ended")

_ASKS = {
    ("getpass", "getpass"), ("getpass", "unix_getpass"), ("getpass", "win_getpass"), ("click", "prompt"),
    ("click", "confirm"), ("typer", "prompt"), ("typer", "confirm"), ("rich", "ask"), ("questionary", "ask"),
}  # fmt: skip
_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")} - {None}
)  # fmt: skip


@dataclass(frozen=True)
class FrameworkNames:
    """The names of a framework that have a meaning in function bodies.

    Attributes:
        packages: the top packages of the framework, whose own code is not read.
        asks: the functions and classes that ask for human approval, each by its package and its name.
        opens: the names of functions whose results the extractor reads.
        reads_agents: the extractor reads the agents that a body makes and runs.
    """

    packages: tuple[str, ...] = ()
    asks: frozenset[tuple[str, str]] = frozenset()
    opens: frozenset[str] = frozenset()
    reads_agents: bool = False

    def asks_human(self, target: object) -> bool:
        """Whether a call of `target` asks for human approval."""
        path = path_of(target).split(".")
        named = (path[0], path[-1])
        return path in (["builtins", "input"], ["_io", "input"]) or named in _ASKS or named in self.asks

    def asks_by(self, call: ast.Call, evaluator: Evaluator, scope: NameScope) -> bool:  # noqa: ARG002 - for subclasses
        """Whether the arguments of a call ask for human approval."""
        return False


NO_FRAMEWORK = FrameworkNames()


class MethodCall(NamedTuple):
    """A call of a method.

    Attributes:
        owner: the object, or its stub.
        method: the name of the method.
        after_approval: every path to the call asks for human approval.
        unconditional: every run of the function reaches the call, unless it raises.
        direct: the call names the object and the method.
    """

    owner: object
    method: str
    after_approval: bool = False
    unconditional: bool = True
    direct: bool = True


class CodeToolCall(NamedTuple):
    """A call of a tool that is not defined in the program.

    Attributes:
        name: the name of the tool.
        after_approval: every path to the call asks for human approval.
        unconditional: every run of the function calls it, unless it raises.
        unseen: the call, for an extractor that does not list it.
    """

    name: str
    after_approval: bool
    unconditional: bool
    unseen: Unseen


@dataclass(frozen=True)
class FunctionSummary:
    """The summary of a function, with all that it calls.

    Attributes:
        file: the file of the definition; None if it is unknown.
        line: the line of the definition.
        asks: it can ask for human approval, at the terminal or through the framework.
        always_asks: it asks for human approval on every path.
        method_calls: the calls of methods.
        constructed: the objects that it constructs.
        named: the values of the names in compiled code, if the source is not available.
        return_values: the values that it can return.
        ends: the values of each return statement, and whether every path to it asks for human approval.
        return_types: the declared return types.
        unknown: descriptions of what could not be read.
        calls: the callees, as in the source.
        source_known: its source is available.
        opaque_calls: its calls that can run anything, or one of `tools`.
        unlisted_calls: its calls that can run anything else than `tools`.
        is_placeholder: it computes nothing.
        tools: the tools that it calls and that are not defined in the program.
        runs_unseen_agent: it runs an agent whose tools are not all known.
        cut_short: the budget ended before all its values were known.
    """

    file: str | None = None
    line: int | None = None
    asks: bool = False
    always_asks: bool = False
    method_calls: tuple[MethodCall, ...] = ()
    constructed: tuple[CallResult, ...] = ()
    named: tuple[object, ...] = ()
    return_values: Values = NOTHING
    ends: tuple[tuple[Values, bool], ...] = ()
    return_types: tuple[types.AnnotatedType, ...] = ()
    unknown: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    source_known: bool = True
    opaque_calls: tuple[Unseen, ...] = ()
    tools: tuple[CodeToolCall, ...] = ()
    unlisted_calls: tuple[Unseen, ...] = ()
    is_placeholder: bool = False
    runs_unseen_agent: bool = False
    cut_short: bool = False

    @cached_property
    def calls_model(self) -> bool:
        """Whether it calls a model or an agent, as far as objects and names tell."""
        return calls.calls_model(self.calls, ((use.owner, use.method) for use in self.method_calls))

    @cached_property
    def runs_named_tools(self) -> bool:
        """Whether it runs something that its code calls a tool, or an agent with unknown tools."""
        return self.runs_unseen_agent or calls.runs_named_tools(self.calls)

    @cached_property
    def strings(self) -> KnownStrings:
        """The strings that it can return, single or in lists."""
        known_strings = KnownStrings.of(self.return_values)
        return known_strings._replace(complete=known_strings.complete and self.source_known)

    def opaque_calls_for(self, *own: str, lists_tools: bool = False) -> tuple[Unseen, ...]:
        """Returns the calls that are opaque to an extractor that knows the objects of the packages `own`.

        With `lists_tools`, the extractor adds `tools` to the graph, so that they are not opaque.
        """
        opaque = {
            use.method: foreign(use.owner, own)
            for use in self.method_calls
            if use.method in RUN_METHODS - {"__call__"} and not (lists_tools and is_readable(use.owner))
        }
        foreign_calls = (Unseen(f"what {name!r} of {package} runs") for name, package in opaque.items() if package)
        return (*(self.unlisted_calls if lists_tools else self.opaque_calls), *foreign_calls)


def opaque_calls_in(function: object) -> tuple[Unseen, ...]:
    """Returns the opaque calls of a tool or of a function around an agent; empty for library functions."""
    inner = _innermost(function)
    if isinstance(inner, FunctionType) and not is_program_code(inner):
        return ()
    body = summarize(function)
    if not body.source_known and not body.opaque_calls:
        return (Unseen("; ".join(body.unknown) or "its code is not available"),)
    return body.opaque_calls_for()


class ReadableFunction(Stub):
    """A stub for a function that exists only as code."""

    bound_arguments = Arguments()
    """The arguments that are already bound."""

    def summary(self, arguments: Arguments, names: FrameworkNames) -> FunctionSummary:
        """Summarizes the function for some arguments."""
        raise NotImplementedError

    def place(self) -> tuple[str | None, int | None]:
        """Returns the file and line of the definition."""
        raise NotImplementedError

    def shown(self, value: object) -> object:
        """Returns a value of its code as an extractor sees it; a function with code becomes a `ReadableFunction`."""
        return value

    def source(self) -> tuple[Evaluator, Function | None]:
        """Returns the evaluator for its code, and the function."""
        raise NotImplementedError


def summarize(function: object, names: FrameworkNames = NO_FRAMEWORK) -> FunctionSummary:
    """Summarizes a function, a method, a partial function or a callable object."""
    inner, arguments = underlying(function)
    if isinstance(inner, ReadableFunction):
        return inner.summary(arguments, names)
    if isinstance(inner, FunctionType):
        return _summarize_live(inner, arguments, names)
    run = _constructor(inner) if isinstance(inner, type) else call_method(inner) or wrapped_by(inner)
    return summarize(run, names) if run is not None else FunctionSummary(source_known=False)


def summarize_code(
    function: Function, evaluator: Evaluator, arguments: Arguments, names: FrameworkNames
) -> FunctionSummary:
    """Summarizes a function that exists only as code."""
    evaluator.reset()
    look = BodyAnalysis(evaluator, names)
    look.visit(function, arguments)
    return look.summary(function, function, evaluator.return_values(function, arguments))


def definition(function: object) -> tuple[str | None, int | None]:
    """Returns the file and line of a function, of a wrapped function, or of the class of an object."""
    inner = function if isinstance(function, ReadableFunction) else _innermost(function)
    if not isinstance(inner, ReadableFunction | FunctionType):
        method = call_method(inner)
        if method is None:
            return _class_definition(inner)
        inner = _innermost(method)
    if isinstance(inner, ReadableFunction):
        return inner.place()
    assert isinstance(inner, FunctionType)
    return inner.__code__.co_filename, _line_of(inner)


def _innermost(function: object) -> object:
    """Unwraps a partial function, a method or a wrapper."""
    inner, _ = underlying(function)
    wrapped = wrapped_by(inner)
    return inner if wrapped is None else _innermost(wrapped)


def _line_of(function: FunctionType) -> int:
    readable = Evaluator().function(function)
    return readable.tree.lineno if readable else function.__code__.co_firstlineno


def _class_definition(value: object) -> tuple[str | None, int | None]:
    kind = value if isinstance(value, type) else type(value)
    try:
        return inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        return None, None


def _constructor(kind: type) -> FunctionType | None:
    constructor = inspect.getattr_static(kind, "__init__", None)
    return constructor if isinstance(constructor, FunctionType) else None


def _summarize_live(function: FunctionType, arguments: Arguments, names: FrameworkNames) -> FunctionSummary:
    evaluator = Evaluator(follow=functools.partial(follows, function))
    readable = evaluator.function(function)
    look = BodyAnalysis(evaluator, names)
    if readable is None:
        look.visit_compiled(function)
        return look.summary(function, None, NOTHING)
    look.visit(readable, arguments)
    wrapped = getattr(function, "__wrapped__", None)
    if isinstance(wrapped, FunctionType):
        look.follow(wrapped, Arguments())
    return look.summary(function, readable, evaluator.return_values(readable, arguments))


def _package_of(function: FunctionType) -> str:
    return (function.__module__ or "").partition(".")[0]


def follows(root: FunctionType, function: FunctionType) -> bool:
    """Whether to read a function that `root` calls: it is code of the program, not of a library."""
    return _package_of(function) == _package_of(root) or is_program_code(function)


def is_program_code(function: FunctionType) -> bool:
    """Whether a function is code of the program, not of a library."""
    file = function.__code__.co_filename
    return "site-packages" not in file and not file.startswith(_LIBRARIES)


_ALWAYS, _CONDITIONAL = FlowPoint(), FlowPoint(unconditional=False)


@dataclass(eq=False)
class BodyAnalysis:
    """Walks through a function and its callees, and collects the parts of its summary."""

    evaluator: Evaluator
    names: FrameworkNames = NO_FRAMEWORK
    constructed: list[CallResult] = field(default_factory=list)
    named: list[object] = field(default_factory=list)
    method_calls: list[MethodCall] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    opaque_calls: list[Unseen] = field(default_factory=list)
    tools: list[CodeToolCall] = field(default_factory=list)
    asks: bool = False
    always_asks: bool = False
    runs_unseen_agent: bool = False
    _file: str = ""
    _seen: set[object] = field(default_factory=set)
    _trees: set[int] = field(default_factory=set)
    _called: set[int] = field(default_factory=set)
    _flows: dict[int, Flow | None] = field(default_factory=dict)
    _open: list[tuple[FunctionTree, Arguments]] = field(default_factory=list)

    def summary(
        self, function: FunctionType | Function, readable: Function | None, returned: Values
    ) -> FunctionSummary:
        """Returns the summary of a function."""
        file, line = _place(function)
        return FunctionSummary(
            file, line, self.asks, self.always_asks, tuple(self.method_calls), tuple(self.constructed),
            tuple(self.named), returned,
            ends=tuple(self._ends(readable)) if readable else (),
            return_types=tuple(types.return_types(self.evaluator, function)),
            unknown=tuple(self.unknown), calls=tuple(dict.fromkeys(self.calls)),
            source_known=readable is not None,
            opaque_calls=tuple(dict.fromkeys([*self.opaque_calls, *(tool.unseen for tool in self.tools)])),
            tools=tuple(dict.fromkeys(self.tools)), unlisted_calls=tuple(dict.fromkeys(self.opaque_calls)),
            is_placeholder=readable is not None and calls.is_placeholder(readable.tree),
            runs_unseen_agent=self.runs_unseen_agent, cut_short=self.evaluator.is_cut_short,
        )  # fmt: skip

    def visit(self, function: Function, arguments: Arguments, point: FlowPoint = _ALWAYS) -> None:
        """Walks through one function, called at a point with some arguments."""
        earlier = [around for tree, around in self._open if tree is function.tree]
        if earlier:  # arguments that change with each level of a recursion would never repeat
            arguments = _with_unknown(arguments, earlier[-1])
        key = (id(function.tree), arguments.signature, point)
        if key in self._seen:
            return
        is_first = not self._seen
        self._seen.add(key)
        outer, self._file = self._file, function.file
        self._open.append((function.tree, arguments))
        try:
            if len(self._seen) > MOST_VISITS:
                self._leave_unread("it calls too many functions to read all of them")
            else:
                self._visit(function, arguments, point, is_first=is_first)
        except RecursionError:
            self._leave_unread("its calls are nested too deeply to read all of them")
        finally:
            self._open.pop()
            self._file = outer

    def _leave_unread(self, why: str) -> None:
        self.unknown.append(why)
        self.opaque_calls.append(Unseen(why))

    def _visit(self, function: Function, arguments: Arguments, point: FlowPoint, *, is_first: bool) -> None:
        self._trees.add(id(function.tree))
        scope = self.evaluator.body_scope(function, arguments)
        flow = self._flow(function, scope)
        if is_first:
            self.always_asks = flow is not None and flow.always_asks
        inner = list(self._walk(function.tree, scope, flow, point))
        for tree, where in inner:
            if id(tree) not in self._trees:  # not called by name, but other code may call it
                self.visit(Function(tree, where, file=function.file), Arguments(open=True), _CONDITIONAL)

    def _ends(self, function: Function) -> Iterator[tuple[Values, bool]]:
        scope = self.evaluator.body_scope(function, Arguments(open=True))
        flow = self._flows.get(id(function.tree))
        for node in statements(function.tree):
            if isinstance(node, ast.Return) and flow is not None and id(node) in flow.returns:
                yield self.evaluator.value(node.value, scope), flow.returns[id(node)]

    def _flow(self, function: Function, scope: NameScope) -> Flow | None:
        """Returns the paths through a function; None while they are computed, or if its calls are nested too deeply."""
        key = id(function.tree)
        if key not in self._flows:
            self._flows[key] = None
            with contextlib.suppress(RecursionError):
                self._flows[key] = Flow(function.tree, lambda call: self._always_asks(call, scope))
        return self._flows[key]

    def _always_asks(self, call: ast.Call, scope: NameScope) -> bool:
        if self.names.asks_by(call, self.evaluator, scope):
            return True
        callee = self.evaluator.value(call.func, scope)
        return bool(callee.known) and callee.complete and all(self._is_certain_to_ask(value) for value in callee.known)

    def _is_certain_to_ask(self, target: object) -> bool:
        """Whether a call of `target` always asks for human approval."""
        if self.names.asks_human(target):
            return True
        if isinstance(target, PartialFunction):
            return self._is_certain_to_ask(target.function)
        if isinstance(target, FunctionType) and self.evaluator.follow(target):
            target = self.evaluator.function(target)
        if not isinstance(target, Function):
            return False
        flow = self._flow(target, self.evaluator.body_scope(target, Arguments(open=True)))
        return flow is not None and flow.always_asks

    def _walk(
        self, tree: ast.AST, scope: NameScope, flow: Flow | None, start: FlowPoint
    ) -> Iterator[tuple[FunctionTree, NameScope]]:
        """Walks through the code of a function, and yields the functions defined in it."""
        for node in statements(tree):
            if isinstance(node, FunctionTree):
                yield node, scope
            elif isinstance(node, Comprehension):
                inner = LoopScope(node, scope)
                for child in ast.iter_child_nodes(node):
                    yield from self._walk(child, inner, flow, start)
            elif isinstance(node, ast.Call):
                here = flow.calls.get(id(node), _CONDITIONAL) if flow else _CONDITIONAL
                self._call(
                    node,
                    scope,
                    FlowPoint(start.after_approval or here.after_approval, start.unconditional and here.unconditional),
                )
            elif isinstance(node, ast.Attribute) and node.attr in RUN_METHODS and id(node) not in self._called:
                for value in self.evaluator.value(node.value, scope).known:  # other code may call the method
                    if not isinstance(value, ModuleType):
                        self.method_calls.append(MethodCall(value, node.attr, unconditional=False, direct=False))
            elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name | ast.Attribute):
                self._target(self.evaluator.value(node.exc, scope), Arguments(), start)

    def _call(self, node: ast.Call, scope: NameScope, point: FlowPoint) -> None:
        self.calls.append(ast.unparse(node.func))
        self._called.add(id(node.func))
        callee = self.evaluator.value(node.func, scope)
        self.asks = self.asks or self.names.asks_by(node, self.evaluator, scope)
        own = self.names.packages if self.names.reads_agents else ()
        library = tools_run_by(node, self.evaluator, scope, frozenset(RUN_METHODS), own)
        self.opaque_calls += unseen_of(library, node.lineno, self._file)
        self.runs_unseen_agent = self.runs_unseen_agent or (library.model_chooses and bool(library.unseen))
        sure_call = point.unconditional and len(library.names) == 1 and not library.model_chooses
        for name in library.names:
            unseen = Unseen(f"the tool {name!r} that its code calls", node.lineno, self._file)
            self.tools.append(CodeToolCall(name, point.after_approval, sure_call, unseen))
        visible = library.known or library.unseen
        if not visible and is_opaque(node, callee, self.evaluator, scope, self.names.opens):
            unseen = Unseen(f"what {self.calls[-1]!r} runs", node.lineno, self._file)
            self.opaque_calls.append(_NOT_FOLLOWED if self.evaluator.exhausted else unseen)
        self._target(callee, self.evaluator.arguments(node, scope), point)
        self.constructed += [
            value for value in self.evaluator.value(node, scope).known if isinstance(value, CallResult)
        ]
        if isinstance(node.func, ast.Attribute):
            callees = self.evaluator.value(node.func.value, scope).known
            owners = [callee for callee in callees if not isinstance(callee, ModuleType)]
            sure = point.unconditional and len(owners) == 1
            self.method_calls.extend(MethodCall(owner, node.func.attr, point.after_approval, sure) for owner in owners)
        else:
            self.method_calls.extend(
                MethodCall(*bound_method, point.after_approval, unconditional=False, direct=False)
                for bound_method in _bound(callee)
            )

    def _target(self, callee: Values, arguments: Arguments, point: FlowPoint) -> None:
        for target in callee.known:
            self.follow(
                target,
                arguments,
                point if len(callee.known) == 1 else FlowPoint(point.after_approval, unconditional=False),
            )
        for argument in (*arguments.positional, *arguments.keywords.values()):
            for value in argument.known:
                maybe = FlowPoint(point.after_approval, unconditional=False)
                if is_applied(value) or isinstance(value, Function | FunctionType):
                    self.follow(value, Arguments(open=True), maybe)
                elif isinstance(value, CallResult | Instance | Stub):
                    self._follow_call_method(value, Arguments(open=True), maybe)

    def follow(self, target: object, arguments: Arguments, point: FlowPoint = _ALWAYS) -> None:
        """Follows a call."""
        target, arguments = underlying(target, arguments)
        if isinstance(target, Function):
            self.visit(target, arguments, point)
        elif self.names.asks_human(target):
            self.asks = True
        else:
            self._follow_live(target, arguments, point)

    def _follow_live(self, target: object, arguments: Arguments, point: FlowPoint) -> None:
        if isinstance(target, FunctionType):
            if not self.evaluator.follow(target):
                wrapped = getattr(target, "__wrapped__", None)
                if isinstance(wrapped, FunctionType):
                    self.follow(wrapped, arguments, point)
            elif readable := self.evaluator.function(target):
                self.visit(readable, arguments, point)
            else:
                self.visit_compiled(target)
        elif isinstance(target, CallResult | Instance):
            self._follow_call_method(target, arguments, point)
        elif not isinstance(target, type | str | ImportedName):
            self.method_calls.append(MethodCall(target, "__call__", point.after_approval, point.unconditional))
            if (inner := self.evaluator.call_target(target)) is not None:
                self.follow(inner, arguments, point)
            elif isinstance(target, Stub):
                self._follow_call_method(target, arguments, point)

    def _follow_call_method(self, target: object, arguments: Arguments, point: FlowPoint) -> None:
        """Follows a call of an object of a class of the program."""
        for value in self.evaluator.attribute(target, "__call__").known:
            if is_applied(value) or isinstance(value, Function):
                self.follow(value, arguments, point)

    def visit_compiled(self, function: FunctionType) -> None:
        """Reads the names in the compiled code of a function whose source is not available."""
        if function in self._seen:
            return
        self._seen.add(function)
        self.unknown.append(f"the source of {function.__qualname__!r} is not available")
        self.opaque_calls.append(Unseen(self.unknown[-1]))
        scope = LiveScope.of(function)
        for name in dict.fromkeys(_names_in(function.__code__)):
            for value in self.evaluator.name(name, scope).known:
                self._named(value)

    def _named(self, value: object) -> None:
        self.named.append(value)
        if isinstance(value, FunctionType | MethodType) or self.names.asks_human(value):
            self.follow(value, Arguments(open=True))


def _with_unknown(arguments: Arguments, around: Arguments) -> Arguments:
    """Returns arguments of a recursive call: those that differ from the call around it are unknown."""
    positional = tuple(
        argument if earlier is not None and argument.identity == earlier.identity else UNKNOWN
        for argument, earlier in itertools.zip_longest(
            arguments.positional, around.positional[: len(arguments.positional)]
        )
    )
    keywords = {
        name: argument if name in around.keywords and argument.identity == around.keywords[name].identity else UNKNOWN
        for name, argument in arguments.keywords.items()
    }
    return Arguments(positional, keywords, arguments.open)


def _bound(callee: Values) -> Iterator[tuple[object, str]]:
    """Yields the objects and method names that a call without a method name may run."""
    for value in callee.known:
        if isinstance(value, Attribute) and value.name in RUN_METHODS:
            yield value.owner, value.name
        elif (
            isinstance(value, PartialFunction)
            and isinstance(value.function, FunctionType)
            and value.function.__name__ in RUN_METHODS
        ):
            owners = value.arguments.positional[0].known if value.arguments.positional else ()
            yield from ((owner, value.function.__name__) for owner in owners)


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _place(function: FunctionType | Function) -> tuple[str | None, int | None]:
    if isinstance(function, Function):
        return function.file or None, function.tree.lineno
    return definition(function)
