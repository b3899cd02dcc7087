"""State functions: functions of the toolbox that rules call on the state, as `state(fn(...))`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from guardagent.policy.evaluation.history_index import Env, Term
from guardagent.policy.evaluation.library import CompileError
from guardagent.policy.evaluation.operands import Cause, TermText
from guardagent.policy.language import ast
from guardagent.policy.language.values import PLAIN, Unknown, as_read, kind_of
from guardagent.types import thaw


class StateFunctionError(Exception):
    """A state function raised an error or returned an invalid value.

    Attributes:
        detail: the message with the function's own error, which can contain anything from the state.
    """

    def __init__(self, problem: str, error: object = "") -> None:
        super().__init__(problem)
        self.detail = f"{problem}: {error}" if error else problem


def check_signature(node: ast.StateOf, function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function).bind(None, *node.arguments)
    except TypeError as error:
        expected = ", ".join(list(inspect.signature(function).parameters)[1:])
        raise CompileError(
            f"wrong arguments for the state function '{node.function}({expected})': {error}", node.place
        ) from None


def state_function(
    node: ast.StateOf, function: Callable[..., Any], arguments: Sequence[Term], term_text: TermText
) -> Term:
    name = node.function

    def answer(env: Env, values: Sequence[Any]) -> Any:
        state = env[0].state()
        if state is None or type(state) is Unknown:
            return state or Unknown("the session has no state")
        try:
            found = function(state, *values)
        except Exception as error:
            raise StateFunctionError(f"{term_text.render(env)} raised {type(error).__name__}", error) from error
        if type(found) in PLAIN:
            return found
        found = as_read(found)
        if found is None:
            return Unknown(Cause(term_text, env, "has no result"))
        if kind_of(found) is None:
            raise StateFunctionError(
                f"the state function {name!r} returned a value of type {type(found).__name__!r}; expected a JSON value"
            )
        return found

    def state_of(env: Env) -> Any:
        values = [argument(env) for argument in arguments]
        unknown = next((value for value in values if type(value) is Unknown), None)
        return answer(env, [thaw(value) for value in values]) if unknown is None else unknown.unbounded

    def state_of_one(env: Env) -> Any:
        value = arguments[0](env)
        if type(value) is str:
            return answer(env, (value,))
        return value.unbounded if type(value) is Unknown else answer(env, (thaw(value),))

    return state_of_one if len(arguments) == 1 else state_of


def in_state(state: Any, name: str) -> Any:
    if state is None or type(state) is Unknown:
        return state or Unknown("the session has no state")
    # A state that is not a mapping is an object of the host.
    value = state.get(name) if kind_of(state) == "mapping" else getattr(state, name, None)
    return Unknown(f"'state.{name}' is unknown") if value is None else as_read(value)
