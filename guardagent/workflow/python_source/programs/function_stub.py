"""Stubs for functions that exist only as code, for extractors that read functions."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

from guardagent.workflow.python_source.bodies import FrameworkNames, FunctionSummary, ReadableFunction, summarize_code
from guardagent.workflow.python_source.evaluation.callables import underlying
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.values import Arguments, Function, ImportedName, PartialFunction, Values

MOST_WRAPPED = 10


class SourceEvaluator(Evaluator):
    """Evaluates the code of a program that is never run.

    Attributes:
        file: the program's file.
        wrapped: the functions that a function wraps with `functools.wraps`, by the identity of its tree.
        renamed: the functions whose `__name__` the program sets, with the values, by identity.
    """

    file: Path
    wrapped: dict[int, tuple[object, ...]]
    renamed: dict[int, tuple[Function, Values]]

    def shown(self, value: object) -> object:
        """Returns a value of the code as an extractor sees it."""
        raise NotImplementedError


@dataclass(eq=False)
class FunctionStub(ReadableFunction):
    """A function of the program, with its bound arguments."""

    function: object
    interpreter: SourceEvaluator
    name: str = ""
    _summaries: dict[object, tuple[Arguments, FunctionSummary]] = field(default_factory=dict, init=False, repr=False)

    @property
    def __name__(self) -> str:
        function, _ = unbound(self.function)
        if (chosen := self.interpreter.renamed.get(id(function))) and chosen[1].strings:
            return min(chosen[1].strings)
        return self.name or defined_name(self.interpreter, self.function)

    def __call__(self, *_arguments: object) -> None:
        """Raises an error, since the program is never run."""
        raise TypeError(f"{self.__name__!r} cannot be called: only its source is read")

    def summary(self, arguments: Arguments, names: FrameworkNames) -> FunctionSummary:
        key = arguments.signature, names
        if key not in self._summaries:  # agents share their tools
            function, own = unbound(self.function)
            self._summaries[key] = arguments, summarize_code(function, self.interpreter, own.then(arguments), names)
        return self._summaries[key][1]

    def source(self) -> tuple[Evaluator, Function | None]:
        return self.interpreter, unbound(self.function)[0]

    def shown(self, value: object) -> object:
        return self.interpreter.shown(value) if isinstance(value, Function | PartialFunction) else value

    @property
    def bound_arguments(self) -> Arguments:  # type: ignore[override]
        return unbound(self.function)[1]

    def place(self) -> tuple[str | None, int | None]:
        function, _ = unbound(self.function)
        wrapped = self.interpreter.wrapped.get(id(function.tree), ())
        if wrapped and isinstance(wrapped[0], Function):
            function = wrapped[0]
        return function.file or str(self.interpreter.file), function.tree.lineno


def unbound(function: object) -> tuple[Function, Arguments]:
    """Returns the underlying function and its bound arguments."""
    inner, arguments = underlying(function)
    assert isinstance(inner, Function)
    return inner, arguments


def defined_name(evaluator: Evaluator, function: object, depth: int = 0) -> str:
    """Returns the name of a function; of one with `functools.wraps`, that of the function that it wraps."""
    inner, _ = unbound(function)
    for mark in getattr(inner.tree, "decorator_list", ()):
        match mark:
            case ast.Call(func=ast.Name(id="wraps") | ast.Attribute(attr="wraps"), args=[argument, *_]) if (
                depth < MOST_WRAPPED
            ):
                wrapped = evaluator.value(argument, inner.scope).known
                if len(wrapped) == 1 and isinstance(wrapped[0], Function | PartialFunction):
                    return defined_name(evaluator, wrapped[0], depth + 1)
                if len(wrapped) == 1 and isinstance(wrapped[0], ImportedName):
                    return wrapped[0].path.rpartition(".")[2]
    return str(getattr(inner.tree, "name", "<lambda>"))
