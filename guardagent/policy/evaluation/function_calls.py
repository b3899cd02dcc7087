"""Functions in rules: those of the language, and those of the toolbox that do not read the state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from guardagent.policy.evaluation.library import CompileError
from guardagent.policy.evaluation.state_functions import StateFunctionError
from guardagent.policy.functions import REGEX, RuleFunction, function
from guardagent.policy.language import ast
from guardagent.policy.language.values import Unknown, kind_name, kind_of
from guardagent.types import thaw

Applied = Callable[[list[Any]], Any]  # takes values, which can be unknown


def applied_function(node: ast.Apply, toolbox: Mapping[str, Callable[..., Any]]) -> Applied:
    """The function that a term applies.

    Raises:
        CompileError: there is no such function, or it has other parameters.
    """
    known = function(node.function)
    if known is not None:
        _check_arguments(node, known)
        return known.apply
    own = toolbox[node.function]
    parameters = list(inspect.signature(own).parameters)
    if parameters[:1] == ["state"]:
        raise CompileError(f"{node.function!r} reads the state; write 'state({node.function}(...))'", node.place)
    try:
        inspect.signature(own).bind(*node.arguments)
    except TypeError as error:
        expected = f"{node.function}({', '.join(parameters)})"
        raise CompileError(f"wrong arguments for the function {expected!r}: {error}", node.place) from None
    return lambda values: _of_toolbox(node.function, own, values)


def _check_arguments(node: ast.Apply, known: RuleFunction) -> None:
    if not known.accepts(len(node.arguments)):
        raise CompileError(
            f"wrong number of arguments for {node.function!r}: {len(node.arguments)}; expected {_number(known)}",
            node.place,
        )
    for at, argument in enumerate(node.arguments):
        if isinstance(argument, ast.Constant) and known.kinds(at) and kind_of(argument.value) not in known.kinds(at):
            wrong = f"argument {at + 1} of {node.function!r} is a {kind_name(argument.value)}"
            raise CompileError(f"{wrong}; expected {known.expected(at)}", node.place)
        if isinstance(argument, ast.RegexValue) is not (known.kinds(at) == (REGEX,)):
            wanted = "a regular expression between slashes" if known.kinds(at) == (REGEX,) else "a value"
            raise CompileError(f"argument {at + 1} of {node.function!r} is {wanted}", node.place)


def _number(known: RuleFunction) -> str:
    return f"{'at least ' if known.repeated else ''}{len(known.parameters)}"


def _of_toolbox(name: str, own: Callable[..., Any], values: list[Any]) -> Any:
    unknown = next((value for value in values if type(value) is Unknown), None)
    if unknown is not None:
        return unknown.unbounded
    try:
        found = own(*map(thaw, values))
    except Exception as error:
        raise StateFunctionError(f"{name}(...) raised {type(error).__name__}", error) from error
    if found is None:
        return Unknown(f"{name}(...) has no result")
    if kind_of(found) is None:
        raise StateFunctionError(
            f"the function {name!r} returned a value of type {type(found).__name__!r}; expected a JSON value"
        )
    return found
