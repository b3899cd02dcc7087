"""The definition of a flow from the decorators of its class, as CrewAI would collect it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from guardagent.workflow.python_source import types
from guardagent.workflow.python_source.scopes import CodeScope
from guardagent.workflow.python_source.stubs import converter_of
from guardagent.workflow.python_source.values import (
    NOTHING,
    Arguments,
    Class,
    Function,
    LiveValue,
    Values,
    path_of,
    plain_string,
)

if TYPE_CHECKING:
    from guardagent.workflow.python_source.stubs import ObjectStub

DECORATORS = {"start", "listen", "router", "human_feedback", "persist"}
ConditionSpec = str | dict[str, Any]


@dataclass(frozen=True, eq=False)
class Decorator(LiveValue):
    """A decorator of CrewAI with its arguments; it returns the method unchanged."""

    name: str
    arguments: Arguments


@dataclass(frozen=True, eq=False)
class CombinedCondition(LiveValue):
    """`and_(...)` or `or_(...)`."""

    sign: str
    parts: tuple[Values, ...]


@dataclass
class MethodDefinition:
    """The definition of one method, with the field names of CrewAI."""

    start: bool | ConditionSpec | None = None
    listen: ConditionSpec | None = None
    router: bool = False
    emit: list[str] | None = None
    human_feedback: Any = None
    persist: Any = None
    do: Any = field(default_factory=lambda: SimpleNamespace(call="code", ref=""))


class FlowDefinition(LiveValue):
    """The definitions of the methods of a flow's own class; CrewAI does not run inherited ones."""

    def __init__(self, flow: ObjectStub) -> None:
        self.flow = flow

    @cached_property
    def methods(self) -> dict[str, MethodDefinition]:
        made_of = self.flow.made_of
        if not isinstance(made_of, Class):
            return {}
        self._note_conversational(made_of)
        nodes = [one for one in made_of.tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        found = {node.name: self._method(node, CodeScope(made_of.tree, made_of.scope)) for node in nodes}
        return {name: definition for name, definition in found.items() if definition is not None}

    def _note_conversational(self, made_of: Class) -> None:
        if self.flow.interpreter.member(made_of, "conversational") is True:
            note = f"{made_of.tree.name} is conversational; the methods that CrewAI adds to it are not read"
            converter_of(self.flow.interpreter).note(note)

    def _method(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: CodeScope) -> MethodDefinition | None:
        decorators = list(self._decorators(node, scope))
        if not any(one.name in {"start", "listen", "router"} for one in decorators):
            return None
        definition = MethodDefinition()
        for one in decorators:
            self._apply(definition, one, node, scope)
        if definition.human_feedback is not None and definition.human_feedback.emit:
            definition.router, definition.emit = True, None
        return definition

    def _decorators(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: CodeScope) -> Iterator[Decorator]:
        """The decorators of CrewAI on a method; a method of the same name does not hide them."""
        interpreter, around = self.flow.interpreter, scope.parent or scope
        for decorator in reversed(node.decorator_list):
            if not isinstance(decorator, ast.Call):
                found = interpreter.value(decorator, around).known
                yield from (Decorator(path_of(one).rpartition(".")[2], Arguments()) for one in found)
                continue
            arguments = interpreter.arguments(decorator, scope)
            for callee in interpreter.value(decorator.func, around).known:
                created = interpreter.call(callee, arguments, decorator.lineno).known
                yield from (one for one in created if isinstance(one, Decorator))

    def _apply(self, definition: MethodDefinition, one: Decorator, node: ast.AST, scope: CodeScope) -> None:
        condition = self._condition(one.arguments.get("condition", 0), node)
        if one.name == "start":
            definition.start = True if condition is None else condition
        elif one.name == "human_feedback":
            definition.human_feedback = SimpleNamespace(
                message=next(iter(self._strings(one.arguments.get("message", 0))), None),
                emit=self._strings(one.arguments.get("emit", 1)),
            )
        elif one.name == "persist":
            definition.persist = SimpleNamespace(enabled=True)
        else:
            definition.listen = condition if condition is not None else definition.listen
            if one.name == "router":
                definition.router = True
                definition.emit = self._strings(one.arguments.get("emit")) or self._declared(node, scope)

    def _declared(self, node: ast.AST, scope: CodeScope) -> list[str]:
        """The labels in the return annotation of a router."""
        parts = types.annotated_types(self.flow.interpreter, getattr(node, "returns", None), scope)
        several = [one for part in parts for one in (part.values.known if part.values is not None else ())]
        return list(dict.fromkeys(plain_string(one) for one in several if isinstance(one, str)))

    def _strings(self, values: Values | None) -> list[str]:
        found: list[str] = []
        for one in (values or NOTHING).known:
            several = [one] if isinstance(one, str) else self.flow.interpreter.elements(Values((one,))).known
            found += [plain_string(each) for each in several if isinstance(each, str)]
        return found

    def _condition(self, values: Values | None, node: ast.AST) -> ConditionSpec | None:
        """The condition that a method waits for; an unknown one becomes an event without a source."""
        if values is None:
            return None
        found = [spec for one in values.known if (spec := self._condition_of(one, node)) is not None]
        if not values.complete or len(found) != 1:
            line = getattr(node, "lineno", 0)
            converter_of(self.flow.interpreter).note(
                f"line {line}: the source does not determine what the method waits for"
            )
        return found[0] if len(found) == 1 else {"or": found or ["?"]}

    def _condition_of(self, one: object, node: ast.AST) -> ConditionSpec | None:
        if isinstance(one, str):
            return plain_string(one)
        if isinstance(one, Function):
            return str(getattr(one.tree, "name", "?"))
        if isinstance(one, CombinedCondition):
            parts = [spec for part in one.parts if (spec := self._condition(part, node)) is not None]
            return {one.sign: parts}
        return None
