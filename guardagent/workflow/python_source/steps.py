"""The code of the functions of a workflow step, with the functions of the program that they call, and its summary.

`FunctionCode` has the code of a function and of the program's functions that it calls. `StepSummary` has the tools,
agents, graphs and requests for human approval of one step.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from types import FunctionType
from typing import Any, Protocol

from guardagent.workflow.extraction import AgentTools
from guardagent.workflow.model.graph import NodeKind, Unseen
from guardagent.workflow.python_source.bodies import (
    NO_FRAMEWORK,
    FrameworkNames,
    FunctionSummary,
    MethodCall,
    ReadableFunction,
    definition,
    is_program_code,
    summarize,
)
from guardagent.workflow.python_source.builtins import call_method
from guardagent.workflow.python_source.evaluator import Evaluator, underlying
from guardagent.workflow.python_source.outcomes import ends_without_value
from guardagent.workflow.python_source.scopes import CodeScope, statements
from guardagent.workflow.python_source.values import (
    Arguments,
    Attribute,
    CallResult,
    Function,
    Instance,
    NameScope,
    Values,
    is_member_of,
    path_of,
)

MOST_FUNCTIONS = 200
_LOGGING = {"debug", "info", "warning", "error", "exception", "log"}
_PURE = {
    *(f"builtins.{name}" for name in "bool dict enumerate float int len list max min print range repr".split()),
    *(f"builtins.{name}" for name in "reversed round set sorted str sum tuple zip".split()),
    "uuid.uuid4",
    "time.time",
}


@dataclass(frozen=True)
class CalledFunction:
    """A called function, and the scope of its body."""

    function: Function
    scope: NameScope

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        return tuple(node for node in ast.walk(self.function.tree) if isinstance(node, ast.Call))


class FunctionCode:
    """The code of a function, a method, a partial function or a callable object.

    Args:
        target: the callable.
        names: the names of the framework, whose packages are not read.
    """

    def __init__(self, target: object, names: FrameworkNames = NO_FRAMEWORK) -> None:
        self.target, self.names = target, names
        self._python, self.bound_arguments = _python_of(target)
        self.evaluator = Evaluator(follow=self._is_own)
        if isinstance(self._python, ReadableFunction):
            self.evaluator, _ = self._python.source()
            self.evaluator.reset()

    @cached_property
    def place(self) -> dict[str, Any]:
        """The file and line of its definition, if they are known."""
        file, line = definition(self.target)
        return {"file": file, "line": line}

    @cached_property
    def body(self) -> CalledFunction | None:
        """Its body; None if the source is not available."""
        function = self._code_of(self._python)
        return CalledFunction(function, self._inside(function, self.bound_arguments)) if function else None

    def _code_of(self, python: FunctionType | ReadableFunction | None) -> Function | None:
        if isinstance(python, ReadableFunction):
            return python.source()[1]
        return self.evaluator.function(python) if python else None

    @cached_property
    def bodies(self) -> list[CalledFunction]:
        """Its body, and the bodies of the program's functions that it calls."""
        if self.body is None:
            return []
        bodies, seen = [self.body], {self.body.function.tree}
        for body in bodies:  # grows during the loop
            for callee in self._callees(body):
                if callee.function.tree not in seen and len(bodies) < MOST_FUNCTIONS:
                    seen.add(callee.function.tree)
                    bodies.append(callee)
        return bodies

    def shown(self, values: Values) -> Values:
        """Returns values of its code, with functions as an extractor expects them."""
        python = self._python
        if not isinstance(python, ReadableFunction):
            return values
        return Values(tuple(map(python.shown, values.known)), values.complete, values.cyclic)

    def _callees(self, body: CalledFunction) -> Iterator[CalledFunction]:
        for call in body.calls:
            for value in self.evaluator.value(call.func, body.scope).known:
                if (callee := self.called_function(value)) is not None:
                    yield callee

    def called_function(self, callee: object, arguments: Arguments | None = None) -> CalledFunction | None:
        """Returns the body of a callee; None if it is not a function of the program."""
        callee, passed = underlying(callee)
        python, bound = _python_of(callee)
        if python is not None and not self._is_own(python):
            return None
        function = callee if isinstance(callee, Function) else self._code_of(python)
        if function is None:
            return None
        first = Arguments(bound.positional, bound.keywords).then(passed)
        return CalledFunction(function, self._inside(function, first.then(arguments or Arguments(open=True))))

    def _inside(self, function: Function, arguments: Arguments) -> NameScope:
        try:
            return self.evaluator.body_scope(function, arguments)
        except RecursionError:  # a type that is defined by itself: the parameters are unknown
            return CodeScope(function.tree, function.scope)

    def _is_own(self, function: FunctionType | ReadableFunction) -> bool:
        """Whether a function is code of the program, not of the framework or another library."""
        if isinstance(function, ReadableFunction):
            return True
        package = (function.__module__ or "").partition(".")[0]
        return package not in self.names.packages and is_program_code(function)

    @cached_property
    def summary(self) -> FunctionSummary:
        """Its summary, with all that it calls."""
        return summarize(self.target, self.names)

    @property
    def asks(self) -> bool:
        """Whether it can ask for human approval."""
        return self.summary.asks

    @property
    def always_asks(self) -> bool:
        """Whether it asks for human approval on every path."""
        return self.summary.always_asks

    def makes(self, package: str, name: str) -> bool:
        """Whether it constructs an object of a class of a package."""
        return any(
            is_member_of(value, package, name)
            for body in self.bodies
            for call in body.calls
            for value in self.evaluator.value(call.func, body.scope).known
        )

    def arguments_of(self, *methods: str, names: Iterable[str]) -> Iterator[tuple[Values, CalledFunction, ast.Call]]:
        """Yields the arguments that it passes, first or by one of `names`, to methods with some names."""
        for body in self.bodies:
            for call in body.calls:
                if is_method(call, *methods):
                    yield self.evaluator.value(_argument(call, *names), body.scope), body, call

    @cached_property
    def is_pure(self) -> bool:
        """Whether it visibly has no side effects."""
        if self.body is None:
            return False
        acts = any(
            isinstance(node, ast.Global | ast.Nonlocal | ast.Await) for node in ast.walk(self.body.function.tree)
        )
        return not acts and all(self._is_harmless(call, self.body.scope) for call in self.body.calls)

    def _is_harmless(self, call: ast.Call, scope: NameScope) -> bool:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _LOGGING:
            return True
        callees = self.evaluator.value(call.func, scope)
        of_text = all(isinstance(callee, Attribute) and isinstance(callee.owner, str) for callee in callees.known)
        known = bool(callees.known) and callees.complete
        return known and (of_text or all(path_of(callee) in _PURE for callee in callees.known))

    @cached_property
    def falls_through(self) -> bool:
        """Whether it can end without a return value."""
        return self.body is not None and ends_without_value(self.body.function.tree)

    @cached_property
    def constant_truth(self) -> bool | None:
        """The truth of its result, if that is always the same; else None."""
        if self.body is None:
            return None
        results = self.evaluator.return_values(self.body.function, self.bound_arguments)
        is_constant = (
            {*results.known, *([None] if self.falls_through else [])} if _are_plain(results.known) else {True, False}
        )
        if not results.complete or results.cyclic or len(truths := {bool(result) for result in is_constant}) != 1:
            return None
        return truths.pop()

    @cached_property
    def is_generator(self) -> bool:
        tree = self.body.function.tree if self.body else ast.Pass()
        return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in statements(tree))


def guard_label(code: FunctionCode, name: str) -> str | None:
    """Returns the label of a condition: empty if it always holds, None if it never does, else its name."""
    return name if code.constant_truth is None else "" if code.constant_truth else None


def _python_of(target: object) -> tuple[FunctionType | ReadableFunction | None, Arguments]:
    """Returns the Python function of a callable, with its bound arguments."""
    inner, arguments = underlying(target)
    arguments = Arguments(open=True).then(arguments)
    if isinstance(inner, ReadableFunction):
        return inner, inner.bound_arguments.then(arguments)
    if not isinstance(inner, FunctionType):
        method = call_method(inner)
        if method is None:
            return None, arguments
        inner, own = underlying(method)
        arguments = own.then(arguments)
    wrapped = inspect.unwrap(inner)  # type: ignore[arg-type]
    return wrapped if isinstance(wrapped, FunctionType) else inner, arguments  # type: ignore[return-value]


def is_method(call: ast.Call, *names: str) -> bool:
    """Whether a call is a method call with one of the names."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in names


def _argument(call: ast.Call, *names: str) -> ast.expr | None:
    """Returns the first argument of a call, or the argument with one of the names."""
    if call.args:
        return call.args[0]
    return next((keyword.value for keyword in call.keywords if keyword.arg in names), None)


def _are_plain(values: Iterable[object]) -> bool:
    return all(value is None or isinstance(value, bool | int | str) for value in values)


# --- summaries


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

    def shown(self, value: object) -> Any:
        """Returns a value in the code of the step as an extractor sees it."""
        code = underlying(self.functions[0])[0] if self.functions else None
        return code.shown(value) if isinstance(code, ReadableFunction) else value

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
        if any(known_graph is graph for known_graph in self.graphs.values()):
            return
        while name in self.graphs:
            name += "'"
        self.graphs[name] = graph

    def add_tool(self, name: str, functions: Iterable[object], use: MethodCall) -> None:
        """Adds a tool that the step calls; it is gated if it always asks for approval, or comes after approval."""
        gate = "" if use.after_approval else gate_of(self.tools, name, functions)
        self.tools.add(name, gate)
        self.model_chooses = self.model_chooses or not use.unconditional

    def add_unknown(self, source: str) -> None:
        """Adds an object whose tools are known only at run time."""
        self.tools.add_source(source)
        self.model_chooses = True


def gate_of(
    box: AgentTools, name: str, functions: Iterable[object], names: FrameworkNames = NO_FRAMEWORK
) -> str | None:
    """Returns the gate of a tool: empty if its functions always ask for human approval, else None."""
    bodies = [summarize(function, names) for function in functions]
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
        known = [owner for owner in owners.known if not _is_unidentified(reader, owner)]
        if owners.complete and len(known) == len(owners.known) and known:
            continue
        name = ast.unparse(call.func.value).removeprefix("self.") if isinstance(call.func, ast.Attribute) else "it"
        step.add_unknown(_last_part(name))
        step.tools.opaque_calls.append(Unseen(f"what {name!r} runs is known only at run time", call.lineno))


def _is_unidentified(reader: StepReader, value: object) -> bool:
    """Whether a value is an unknown agent or workflow."""
    if reader.recognises(value):
        return False
    kind = value.of if isinstance(value, Instance) else value.callee if isinstance(value, CallResult) else None
    return kind is not None and reader.may_run(kind)


def owners_of(code: FunctionCode, methods: frozenset[str]) -> Iterator[tuple[ast.Call, Values]]:
    """Yields the calls of methods with some names, each with the objects."""
    for body in code.bodies:
        for call in body.calls:
            if is_method(call, *methods) and isinstance(call.func, ast.Attribute):
                yield call, code.evaluator.value(call.func.value, body.scope)


def _last_part(name: str) -> str:
    return name.rpartition(".")[2] or name
