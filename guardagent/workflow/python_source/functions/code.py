"""The code of a program's functions, and of those that they call as far as they are the program's own."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import FunctionType
from typing import Any

from guardagent.workflow.python_source.evaluation.attributes import call_method
from guardagent.workflow.python_source.evaluation.callables import underlying
from guardagent.workflow.python_source.evaluation.evaluator import Evaluator
from guardagent.workflow.python_source.evaluation.scope import CodeScope, statements
from guardagent.workflow.python_source.evaluation.values import (
    Arguments,
    Attribute,
    Function,
    NameScope,
    Values,
    is_member_of,
    path_of,
)
from guardagent.workflow.python_source.functions.bodies import (
    NO_FRAMEWORK,
    FrameworkNames,
    FunctionSummary,
    ReadableFunction,
    definition,
    is_program_code,
    summarize,
)
from guardagent.workflow.python_source.functions.outcomes import ends_without_value

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
    """A function that is called, with what is known in it."""

    function: Function
    scope: NameScope

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        return tuple(node for node in ast.walk(self.function.tree) if isinstance(node, ast.Call))


class FunctionCode:
    """The code of something that can be called: a function, a method, a partial function, an object.

    Args:
        target: it.
        words: the framework's words, the code of whose packages is not gone into.
    """

    def __init__(self, target: object, words: FrameworkNames = NO_FRAMEWORK) -> None:
        self.target, self.names = target, words
        self._python, self.bound_arguments = _python_of(target)
        self.evaluator = Evaluator(follow=self._is_own)
        if isinstance(self._python, ReadableFunction):
            self.evaluator, _ = self._python.source()
            self.evaluator.reset()

    @cached_property
    def place(self) -> dict[str, Any]:
        """The file and line of its definition, where there are such."""
        file, line = definition(self.target)
        return {"file": file, "line": line}

    @cached_property
    def body(self) -> CalledFunction | None:
        """Its body; None where the source is not to be had."""
        function = self._code_of(self._python)
        return CalledFunction(function, self._inside(function, self.bound_arguments)) if function else None

    def _code_of(self, python: FunctionType | ReadableFunction | None) -> Function | None:
        if isinstance(python, ReadableFunction):
            return python.source()[1]
        return self.evaluator.function(python) if python else None

    @cached_property
    def bodies(self) -> list[CalledFunction]:
        """Its body, and those of the program's own functions that it calls."""
        if self.body is None:
            return []
        found, seen = [self.body], {self.body.function.tree}
        for body in found:  # grows while it is read
            for callee in self._callees(body):
                if callee.function.tree not in seen and len(found) < MOST_FUNCTIONS:
                    seen.add(callee.function.tree)
                    found.append(callee)
        return found

    def shown(self, values: Values) -> Values:
        """Values in its code, with functions as an extractor expects them."""
        python = self._python
        if not isinstance(python, ReadableFunction):
            return values
        return Values(tuple(map(python.shown, values.known)), values.complete, values.cyclic)

    def _callees(self, body: CalledFunction) -> Iterator[CalledFunction]:
        for call in body.calls:
            for one in self.evaluator.value(call.func, body.scope).known:
                if (callee := self.called_function(one)) is not None:
                    yield callee

    def called_function(self, callee: object, arguments: Arguments | None = None) -> CalledFunction | None:
        """The body of something that is called, if it is the program's own."""
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
        except RecursionError:  # a type that is declared by itself: then nothing is known of the parameters
            return CodeScope(function.tree, function.scope)

    def _is_own(self, function: FunctionType | ReadableFunction) -> bool:
        """Whether a function is the program's, not the framework's or another library's."""
        if isinstance(function, ReadableFunction):
            return True
        package = (function.__module__ or "").partition(".")[0]
        return package not in self.names.packages and is_program_code(function)

    @cached_property
    def summary(self) -> FunctionSummary:
        """Sums it up, with all that it calls."""
        return summarize(self.target, self.names)

    @property
    def asks(self) -> bool:
        """Whether it asks a person, at least under a condition."""
        return self.summary.asks

    @property
    def always_asks(self) -> bool:
        """Whether it asks a person whatever way it takes."""
        return self.summary.always_asks

    def makes(self, package: str, name: str) -> bool:
        """Whether it makes an object of a class of a package."""
        return any(
            is_member_of(one, package, name)
            for body in self.bodies
            for call in body.calls
            for one in self.evaluator.value(call.func, body.scope).known
        )

    def arguments_of(self, *methods: str, names: Iterable[str]) -> Iterator[tuple[Values, CalledFunction, ast.Call]]:
        """What it gives, first or by one of some names, to methods of some names."""
        for body in self.bodies:
            for call in body.calls:
                if is_method(call, *methods):
                    yield self.evaluator.value(_argument(call, *names), body.scope), body, call

    @cached_property
    def is_pure(self) -> bool:
        """Whether it visibly does nothing but give a value."""
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
        of_text = all(isinstance(one, Attribute) and isinstance(one.owner, str) for one in callees.known)
        known = bool(callees.known) and callees.complete
        return known and (of_text or all(path_of(one) in _PURE for one in callees.known))

    @cached_property
    def falls_through(self) -> bool:
        """Whether it can end without returning anything."""
        return self.body is not None and ends_without_value(self.body.function.tree)

    @cached_property
    def constant_truth(self) -> bool | None:
        """What it returns, where that is always true or always false."""
        if self.body is None:
            return None
        results = self.evaluator.return_values(self.body.function, self.bound_arguments)
        found = (
            {*results.known, *([None] if self.falls_through else [])} if _are_plain(results.known) else {True, False}
        )
        if not results.complete or results.cyclic or len(truths := {bool(one) for one in found}) != 1:
            return None
        return truths.pop()

    @cached_property
    def is_generator(self) -> bool:
        tree = self.body.function.tree if self.body else ast.Pass()
        return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in statements(tree))


def guard_label(code: FunctionCode, name: str) -> str | None:
    """What a function that decides on each call comes to: None where it never holds, empty where always, else it."""
    return name if code.constant_truth is None else "" if code.constant_truth else None


def _python_of(target: object) -> tuple[FunctionType | ReadableFunction | None, Arguments]:
    """The Python function of what can be called, with what it is given already."""
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
    """Whether a call is that of a method of one of some names."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in names


def _argument(call: ast.Call, *names: str) -> ast.expr | None:
    """The first argument of a call, or that of one of some names."""
    if call.args:
        return call.args[0]
    return next((one.value for one in call.keywords if one.arg in names), None)


def _are_plain(values: Iterable[object]) -> bool:
    return all(one is None or isinstance(one, bool | int | str) for one in values)
