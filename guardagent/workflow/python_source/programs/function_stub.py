"""Stubs for functions that exist only as code, for extractors that read functions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from guardagent.workflow.python_source.evaluation.callables import underlying
from guardagent.workflow.python_source.evaluation.evaluator import Evaluator
from guardagent.workflow.python_source.evaluation.values import Arguments, Function, PartialFunction
from guardagent.workflow.python_source.functions.bodies import (
    FrameworkNames,
    FunctionSummary,
    ReadableFunction,
    summarize_code,
)


class SourceEvaluator(Evaluator):
    """Evaluates the code of a program that is never run.

    Attributes:
        file: the program's file.
        wrapped: the functions that a function wraps with `functools.wraps`, by the identity of its tree.
    """

    file: Path
    wrapped: dict[int, tuple[object, ...]]

    def shown(self, value: object) -> object:
        """Returns a value of the code as an extractor sees it."""
        raise NotImplementedError


@dataclass(eq=False)
class FunctionStub(ReadableFunction):
    """A function of the program, with its bound arguments."""

    function: object
    interpreter: SourceEvaluator
    name: str = ""

    @property
    def __name__(self) -> str:
        return self.name or getattr(unbound(self.function)[0].tree, "name", "<lambda>")

    def __call__(self, *_arguments: object) -> None:
        """Raises an error, since the program is never run."""
        raise TypeError(f"{self.__name__!r} cannot be called: only its source is read")

    def summary(self, arguments: Arguments, names: FrameworkNames) -> FunctionSummary:
        function, own = unbound(self.function)
        return summarize_code(function, self.interpreter, own.then(arguments), names)

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
