"""Resolves the agents that the code of a custom agent runs."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable
from typing import Any

from guardagent.frameworks.adk.extractor.tools import ADK
from guardagent.workflow.extraction.objects import is_a
from guardagent.workflow.python_source.scopes import CodeScope
from guardagent.workflow.python_source.steps import CalledFunction, FunctionCode, is_method
from guardagent.workflow.python_source.values import (
    Attribute,
    Class,
    ImportedName,
    NameScope,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    path_of,
)

BASE: Any = type("Base", (), {"name": "super()"})()  # the run method of the framework class, called by `super()`
MOST_NESTED = 12
_RUN_METHODS = ("run_async", "run_live", "_run_async_impl", "_run_live_impl", "_run_impl", "run")
_LOOKUPS = ("find_agent", "find_sub_agent")
_CONTEXTS = {"ctx", "context", "invocation_context", "parent_context"}


class AgentCalls:
    """Resolves agents in the code of one custom agent."""

    def __init__(self, code: FunctionCode, agent: object) -> None:
        self._code, self._evaluator, self._agent = code, code.evaluator, agent
        self._found: dict[tuple[str, int, int], tuple[NameScope, bool]] = {}

    def run_by(self, call: ast.Call, scope: NameScope) -> Values | None:
        """The agents that a call runs; None if it runs none."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _RUN_METHODS:
            return None
        owner = call.func.value
        if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super":
            return exactly(BASE)
        values = self.values(owner, scope)
        if any(is_a(one, ADK, "BaseNode") for one in values.known):
            return values
        return values if not values.complete and takes_context(call) else None

    def values(self, expression: ast.expr | None, scope: NameScope) -> Values:
        """The values of an expression; resolves agents looked up by name or index."""
        match expression:
            case ast.Call(func=ast.Attribute(value=owner, attr=attribute), args=[name, *_]) if attribute in _LOOKUPS:
                named = self._by_name(self.values(owner, scope), self._evaluator.value(name, scope))
                inner = tuple(one for one in named.known if one is not self._agent or attribute == "find_agent")
                return Values(inner, named.complete)
            case ast.Subscript(value=inner, slice=ast.UnaryOp() | ast.Constant() as place):
                items, number = self._items(inner, scope), _number(place)
                if items is not None and isinstance(number, int) and -len(items) <= number < len(items):
                    return exactly(items[number])
            case ast.Name(id=name) if isinstance(scope, CodeScope) and (bindings := scope.find(name)):
                sources = [one.source for one in bindings if not one.steps and not one.grows]
                if len(sources) == len(bindings) and all(isinstance(one, ast.expr) for one in sources):
                    return self._union([one for one in sources if isinstance(one, ast.expr)], scope)
        return self._evaluator.value(expression, scope)

    def _union(self, sources: Iterable[ast.expr], scope: NameScope) -> Values:
        result = Values()
        for source in sources:
            own = isinstance(source, ast.Call | ast.Subscript)
            result |= self.values(source, scope) if own else self._evaluator.value(source, scope)
        return result

    def _by_name(self, owners: Values, names: Values) -> Values:
        if not owners.complete:
            return Values(complete=False)
        if names.strings is None:  # any of them
            found = [one for owner in owners.known for one in _agents_in(owner)]
            return Values(tuple({id(one): one for one in found}.values()), bool(found))
        found = [_find_agent(owner, name) for owner in owners.known for name in sorted(names.strings)]
        return Values(tuple(one for one in found if one is not None), all(one is not None for one in found))

    def ordered(self, expression: ast.expr, scope: NameScope) -> list[Any] | None:
        """The agents of a collection in order; None if it holds others, or the order is unknown."""
        found = self._items(expression, scope)
        return found if found and all(is_a(one, ADK, "BaseNode") for one in found) else None

    def _items(self, expression: ast.expr | None, scope: NameScope) -> list[Any] | None:
        match expression:
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                each = [self.values(part, scope) for part in parts]
                exact = all(len(one.known) == 1 and one.complete for one in each)
                return [one.known[0] for one in each] if exact else None
            case ast.Call(func=ast.Name(id="enumerate" | "list" | "tuple"), args=[inner, *_]):
                return self._items(inner, scope)
            case ast.Call(func=ast.Name(id="reversed"), args=[inner]):
                items = self._items(inner, scope)
                return items[::-1] if items is not None else None
            case ast.Subscript(value=inner, slice=ast.Slice() as part):
                return _sliced(self._items(inner, scope), part)
            case ast.Attribute():
                return _known_list(self._evaluator.value(expression, scope))
            case ast.Name(id=name):
                return self._items_of_name(name, scope)
        return None

    def _items_of_name(self, name: str, scope: NameScope | None) -> list[Any] | None:
        while scope is not None:
            if bindings := scope.find(name):
                source = bindings[0].source
                if len(bindings) > 1 or bindings[0].steps or bindings[0].grows:
                    return None
                if isinstance(source, Values):
                    return _known_list(source)
                return self._items(source, scope) if isinstance(source, ast.expr) else None
            scope = scope.parent
        return None

    def helpers(self, call: ast.Call, scope: NameScope) -> list[CalledFunction]:
        """The program's functions that a call runs and that run agents."""
        arguments = self._evaluator.arguments(call, scope)
        opened = [self._code.called_function(one, arguments) for one in self._evaluator.value(call.func, scope).known]
        return [one for one in opened if one is not None and self.runs([one.function.tree], one.scope)]

    def runs(self, trees: Iterable[ast.AST], scope: NameScope, depth: int = 0) -> bool:
        """Whether code runs agents, directly or in a helper."""
        calls = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
        return any(self._once("runs", call, scope, lambda call: self._runs(call, scope, depth)) for call in calls)

    def _runs(self, call: ast.Call, scope: NameScope, depth: int) -> bool:
        is_own = is_method(call, "run_node") or self.run_by(call, scope) is not None
        return is_own or self._helper_runs(call, scope, depth)

    def _once(self, what: str, call: ast.Call, scope: NameScope, find: Callable[[ast.Call], bool]) -> bool:
        """Answers a question about a call in a scope; enclosing blocks ask it again."""
        key = what, id(call), id(scope)
        if key not in self._found:
            self._found[key] = scope, find(call)
        return self._found[key][1]

    def _helper_runs(self, call: ast.Call, scope: NameScope, depth: int) -> bool:
        if depth >= MOST_NESTED:
            return True
        opened = [self._code.called_function(one) for one in self._evaluator.value(call.func, scope).known]
        return any(self.runs([one.function.tree], one.scope, depth + 1) for one in opened if one is not None)

    def passes_agents(self, call: ast.Call, scope: NameScope) -> bool:
        """Whether a call passes agents, or the run context, to code that cannot be read."""
        return self._once("passes", call, scope, lambda call: self._passes_agents(call, scope))

    def _passes_agents(self, call: ast.Call, scope: NameScope) -> bool:
        arguments = [*call.args, *(one.value for one in call.keywords)]
        agents = any(self._is_agent(one, scope) for one in arguments)
        if not agents and not takes_context(call):
            return False
        callees = self._evaluator.value(call.func, scope)
        return not (callees.known and callees.complete and all(self._is_harmless(one, agents) for one in callees.known))

    def _is_harmless(self, callee: object, agents: bool) -> bool:  # noqa: FBT001
        """Whether a callee is inlined, or runs no agents (the framework runs them only by known methods)."""
        if self._code.called_function(callee) is not None:
            return True
        while isinstance(callee, PartialFunction):
            callee = callee.function
        if isinstance(callee, Attribute) and callee.name == "get":
            return isinstance(callee.owner, Table | dict)
        root = path_of(callee).partition(".")[0]
        is_class = isinstance(callee, type | Class) or (
            isinstance(callee, ImportedName) and _is_class_name(callee.path)
        )
        return root in sys.stdlib_module_names or (not agents and (root == "google" or is_class))

    def _elements(self, one: object) -> Iterable[object]:
        return self._evaluator.elements(exactly(one)).known if isinstance(one, list | tuple | Sequence) else [one]

    def _is_agent(self, expression: ast.expr, scope: NameScope) -> bool:
        known = self.values(expression, scope).known
        flat = [each for one in known for each in self._elements(one)]
        return any(is_a(one, ADK, "BaseAgent") and one is not self._agent for one in flat)


def takes_context(call: ast.Call) -> bool:
    """Whether a call takes the run context."""
    arguments = [*call.args, *(one.value for one in call.keywords)]
    return any(isinstance(one, ast.Name) and one.id in _CONTEXTS for one in arguments)


def _is_class_name(path: str) -> bool:
    return path.rpartition(".")[2][:1].isupper()


def _find_agent(owner: Any, name: str) -> Any:
    """The agent of a name in a tree, as `find_agent` does."""
    if not is_a(owner, ADK, "BaseAgent"):
        return None
    if owner.name == name:
        return owner
    return next((one for child in owner.sub_agents if (one := _find_agent(child, name)) is not None), None)


def _agents_in(owner: Any) -> Iterable[Any]:
    """All agents in a tree of agents."""
    if is_a(owner, ADK, "BaseAgent"):
        yield owner
        for child in owner.sub_agents:
            yield from _agents_in(child)


def _known_list(values: Values) -> list[Any] | None:
    if len(values.known) == 1 and values.complete and isinstance(values.known[0], Sequence):
        items = values.known[0].items
        exact = values.known[0].ordered and all(len(one.known) == 1 and one.complete for one in items)
        return [one.known[0] for one in items] if exact else None
    if len(values.known) != 1 or not values.complete or not isinstance(values.known[0], list | tuple):
        return None
    return list(values.known[0])


def _sliced(items: list[Any] | None, part: ast.Slice) -> list[Any] | None:
    bounds = [None if one is None else _number(one) for one in (part.lower, part.upper, part.step)]
    numbers = [one for one in bounds if one is None or isinstance(one, int)]
    if items is None or len(numbers) < 3:
        return None
    return items[slice(*numbers)]


def _number(node: ast.expr) -> int | ast.expr:
    """The value of an integer literal; else the expression."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
    return node
