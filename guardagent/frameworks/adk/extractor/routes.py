"""The routes that a node of an ADK workflow can take, read from its code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from guardagent.workflow.extraction.objects import is_a
from guardagent.workflow.python_source.scopes import statements
from guardagent.workflow.python_source.steps import FunctionCode
from guardagent.workflow.python_source.values import UNKNOWN, CallResult, Values, exactly, is_result_of
from guardagent.workflow.python_source.values import Sequence as Items


@dataclass(frozen=True)
class Routes:
    """The routes that a node can take.

    Attributes:
        named: the routes that its code names.
        incomplete: there may be others.
        may_take_none: it can end without a route.
    """

    named: frozenset[bool | int | str] = frozenset()
    incomplete: bool = False
    may_take_none: bool = False


def routes_of(code: FunctionCode) -> Routes:
    """The routes that a function returns, yields, or sets on its context."""
    if code.body is None:
        return Routes(incomplete=True)
    outputs = _outputs(code)
    found = [_event_routes(code, one) for one in outputs.known if not is_result_of(one, "google", "RequestInput")]
    context_routes = [each for value in _context_routes(code) for each in _flat_routes(code, value)]
    routes = [each for several in found for each in several] + context_routes
    named = {route for route in routes if isinstance(route, bool | int | str)}
    unknown = not outputs.complete or any(route is UNKNOWN for route in routes)
    if code.is_generator:
        none = not named and not unknown
    else:
        none = not context_routes and (any(route is None for route in routes) or code.falls_through)
    return Routes(frozenset(named), unknown, none)


def _outputs(code: FunctionCode) -> Values:
    """The values that a function returns or yields; its own parameters are not events."""
    assert code.body is not None
    tree, scope = code.body.function.tree, code.body.scope
    if isinstance(tree, ast.Lambda):
        return code.evaluator.value(tree.body, scope)
    inputs = {one.arg for one in (*tree.args.args, *tree.args.kwonlyargs)}
    result = Values()
    for node in statements(tree):
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            own = isinstance(node.value, ast.Name) and node.value.id in inputs and len(scope.find(node.value.id)) == 1
            result |= exactly("") if own else code.evaluator.value(node.value, scope)
    return result


def _event_routes(code: FunctionCode, output: object) -> list[Any]:
    """The routes of one output: UNKNOWN for others, None for no route."""
    if is_a(output, "google.adk", "Event"):
        return _flat_routes(code, exactly(getattr(getattr(output, "actions", None), "route", None)))
    if not is_result_of(output, "google", "Event"):
        return [None] if not isinstance(output, CallResult) or not _may_be_event(output) else [UNKNOWN]
    assert isinstance(output, CallResult)
    route = output.arguments.get("route")
    actions = output.arguments.get("actions")
    if route is None and actions is not None:
        inner = [one.arguments.get("route") if isinstance(one, CallResult) else UNKNOWN for one in actions.known]
        found = [each for one in inner for each in _flat_routes(code, one or exactly(None))]
        return found if actions.complete else [*found, UNKNOWN]
    return _flat_routes(code, route or exactly(None))


def _may_be_event(output: CallResult) -> bool:
    """Whether a created object could be an event of a class of the program."""
    maker = output.callee
    if not isinstance(maker, type):
        return True
    return any(kind.__name__ == "Event" and kind.__module__.startswith("google.adk.") for kind in maker.__mro__)


def _flat_routes(code: FunctionCode, routes: Values) -> list[Any]:
    """The single routes, with lists flattened."""
    found: list[Any] = [] if routes.complete and not routes.cyclic else [UNKNOWN]
    for one in routes.known:
        if isinstance(one, Items | list | tuple):
            found.extend(_flat_routes(code, code.evaluator.elements(exactly(one))))
        else:
            found.append(one if one is None or isinstance(one, bool | int | str) else UNKNOWN)
    return found


def _context_routes(code: FunctionCode) -> Iterator[Values]:
    """The values assigned to a `route` attribute."""
    for body in code.bodies:
        for node in statements(body.function.tree):
            if isinstance(node, ast.Assign) and any(_is_route(one) for one in node.targets):
                yield code.evaluator.value(node.value, body.scope)


def _is_route(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and target.attr == "route"
