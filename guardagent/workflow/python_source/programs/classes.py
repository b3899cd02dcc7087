"""Evaluates functions, classes and their objects: definitions, constructors, attributes and inherited methods."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from guardagent.workflow.python_source import stubs
from guardagent.workflow.python_source.evaluation.callables import underlying
from guardagent.workflow.python_source.objects import ChangingEvaluator, Namespace
from guardagent.workflow.python_source.programs.scopes import FlowScope, ModuleObject, ProgramObject
from guardagent.workflow.python_source.scopes import CodeScope
from guardagent.workflow.python_source.stubs import ClassStub, ObjectStub
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    Class,
    Function,
    ImportedName,
    NameScope,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    path_of,
)


class ClassEvaluator(ChangingEvaluator):
    """Evaluates a program with its classes and functions."""

    executing: bool
    _functions: list[Function]  # that the program defines
    _classes: dict[int, Class]

    def call_function(self, function: Function, arguments: Arguments) -> Values:
        """Interprets the body of a function, and returns its values."""
        raise NotImplementedError

    def _of_framework(self, target: object, arguments: Arguments, line: int) -> Values | None:
        raise NotImplementedError

    def _file_of(self, scope: NameScope | None) -> Path:
        raise NotImplementedError

    def _of_super(self, node: ast.Call, scope: NameScope) -> Values | None:
        """Evaluates `super().method(...)`; returns None for other calls."""
        match node.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                pass
            case _:
                return None
        where = _method_around(scope)
        if where is None or not isinstance(where.tree, ast.FunctionDef | ast.AsyncFunctionDef):
            return None
        spec = where.tree.args
        first = [*spec.posonlyargs, *spec.args][:1]
        owner = self.name(first[0].arg, where) if first else UNKNOWN
        return self._of_base(where.parent, owner, name, self.arguments(node, scope), node.lineno)

    def _of_base(self, around: Any, owner: Values, name: str, arguments: Arguments, line: int) -> Values | None:
        """Evaluates a call of an inherited method."""
        outside = around.parent or around
        bases = [one for base in around.tree.bases for one in self.value(base, outside).known]
        for base in bases:
            if isinstance(base, Class) and (method := self.member(base, name)) is not None:
                before = Arguments((owner, *arguments.positional), arguments.keywords, arguments.open)
                return self.call(method, before, line)
            own = isinstance(base, Class)
            kind = stubs.framework_kind(self, base) if own else stubs.kind_of(self, base)
            if kind is not None:
                return self._base_method(owner, kind, name, arguments, line)
        return exactly(None) if name == "__init__" else None

    def _base_method(self, owner: Values, kind: ClassStub, name: str, arguments: Arguments, line: int) -> Values:
        """Evaluates a call of a method of a framework's class by a class of the program."""
        result = exactly(None) if name == "__init__" else UNKNOWN
        for one in owner.known:
            if not isinstance(one, ObjectStub):
                continue
            if name == "__init__":
                stubs.construct(one, kind, arguments)
            elif (found := self._of_framework(Attribute(one, name), arguments, line)) is not None:
                result = found
        return result

    def _make(self, made_of: Class, arguments: Arguments, line: int = 0) -> ProgramObject:
        """Constructs an object of a class."""
        self._changes += 1
        framed = stubs.object_of(self, made_of, arguments, line)
        created = framed or ProgramObject(made_of)
        if framed is None and self.executing:
            self.objects.append(created)
        found = self.member(made_of, "__init__")
        if found is not None and isinstance(found, Function):
            self.call_function(found, _with_self(created, arguments))
        elif framed is not None:
            stubs.construct(framed, framed.kind, arguments)
        else:
            for place, name in enumerate(_fields(made_of)):
                if (argument := arguments.get(name, place)) is not None:
                    created.attributes[name] = argument
        for later in ("__post_init__", "model_post_init") if self.executing else ():
            if isinstance(method := self.member(made_of, later), Function):
                self.call_function(method, Arguments((exactly(created),), open=True))
        return created

    def call_target(self, target: object) -> object | None:
        if not isinstance(target, ProgramObject):
            return super().call_target(target)
        method = self.member(target.made_of, "__call__")
        return PartialFunction(method, Arguments((exactly(target),))) if isinstance(method, Function) else None

    def _call_object(self, target: ProgramObject, arguments: Arguments, line: int) -> Values:
        method = self.member(target.made_of, "__call__")
        return self.call(method, _with_self(target, arguments), line) if method is not None else UNKNOWN

    def attribute(self, owner: object, name: str) -> Values:
        if isinstance(owner, ModuleObject):
            return self._modules.attribute(owner.path, name) or UNKNOWN
        if name == "__name__" and isinstance(owner, Function | PartialFunction | Class):
            return self._name_of(owner)
        if isinstance(owner, Class):
            return self._of_class(owner, name)
        if name == "__dict__" and isinstance(owner, ProgramObject) and self.executing:
            return exactly(Namespace(owner))
        if not isinstance(owner, ProgramObject):
            return super().attribute(owner, name)
        if self.member(owner.made_of, "__getattribute__") is not None:
            return UNKNOWN
        if name in owner.attributes:
            return owner.attributes[name]
        found = self.declared_by_class(owner, name)
        if found is None:
            return exactly(Attribute(owner, name)) if isinstance(owner, ObjectStub) else UNKNOWN
        return found

    def _name_of(self, owner: object) -> Values:
        """Evaluates `function.__name__`, also of a method, a class or a wrapper."""
        inner = underlying(owner)[0]
        if id(inner) in self.renamed:
            return self.renamed[id(inner)][1]
        if isinstance(inner, Function) and (wrapped := self.wrapped.get(id(inner.tree))) is not None:
            return self._name_of(wrapped[0]) if len(wrapped) == 1 else UNKNOWN
        tree = inner.tree if isinstance(inner, Function | Class) else None
        return UNKNOWN if tree is None or isinstance(tree, ast.Lambda) else exactly(tree.name)

    def _of_class(self, owner: Class, name: str) -> Values:
        """Returns the values of a name of a class; its collections are one for all who read it."""
        held = self._class_names.get(id(owner.tree), {})
        if name in held:
            return self.current(held[name], inner=False)
        if not CodeScope(owner.tree, owner.scope).find(name):
            for base in stubs.bases_of(self, owner):
                if (
                    isinstance(base, Class)
                    and base.tree is not owner.tree
                    and (found := self._of_class(base, name)).known
                ):
                    return found
        found = super().attribute(owner, name)
        if self.executing and any(isinstance(one, Sequence | Table) for one in found.known):
            self._names_of(owner)[name] = found
        return found

    def declared_by_class(self, owner: ProgramObject, name: str) -> Values | None:
        """Returns the value of an attribute by the class of an object; None if the class does not define it."""
        found = self.member(owner.made_of, name)
        if found is None:
            return None
        if isinstance(found, CallResult):
            return self._of_decorated(owner, found)
        return exactly(PartialFunction(found, Arguments((exactly(owner),))) if isinstance(found, Function) else found)

    def _of_decorated(self, owner: ProgramObject, found: CallResult) -> Values:
        """Evaluates a member that is a property, a static method or the like."""
        how = path_of(found.callee).rpartition(".")[2]
        inner = found.arguments.get("", 0) or UNKNOWN
        if how in {"property", "cached_property"}:
            results = [self.call(one, _with_self(owner, Arguments())) for one in inner.known]
            return results[0] if len(results) == 1 else UNKNOWN
        if how == "classmethod":
            first = Arguments((exactly(owner.made_of),))
            return Values(tuple(PartialFunction(one, first) for one in inner.known), inner.complete)
        return inner if how == "staticmethod" else exactly(found)

    def member(self, made_of: object, name: str) -> object | None:
        """Returns the member of a class or its base classes; None if it is not unique."""
        if not isinstance(made_of, Class):
            return None
        found = self._of_class(made_of, name)
        return found.known[0] if len(found.known) == 1 else None

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Values:
        owner = self.value(node.value, scope)
        if owner.known and all(isinstance(one, Class) or stubs.kind_of(self, one) for one in owner.known):
            return owner  # a class with its parameters, as in `Agent[Context]`
        return super()._subscript(node, scope)

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: NameScope) -> Values:
        function = Function(node, scope, self._defaults(node.args, scope), str(self._file_of(scope)))
        if self.executing:
            self._functions.append(function)
        return self._decorate(function, node)

    _asyncfunctiondef = _functiondef

    def _decorate(self, function: Function, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Values:
        result = exactly(function)
        for decorator in reversed(node.decorator_list):
            where = _scope_of_decorator(decorator, function, node)
            decorated = self._decorated(self.value(decorator, where), result, node)
            result = result if self._is_foreign(decorated) else decorated
        return result

    def _is_foreign(self, decorated: Values) -> bool:
        """Whether a decorator is not from a known framework, so it counts as leaving the function unchanged."""
        return any(
            isinstance(one, CallResult)
            and isinstance(one.callee, ImportedName)
            and not self._modules.is_framework(one.callee.path.partition(".")[0])
            for one in decorated.known
        )

    def _namedexpr(self, node: ast.NamedExpr, scope: NameScope) -> Values:
        values = self.value(node.value, scope)
        if self.executing and isinstance(scope, FlowScope):
            self.assign(node.target, values, scope)
        return values

    def _lambda(self, node: ast.Lambda, scope: NameScope) -> Values:
        function = Function(node, scope, self._defaults(node.args, scope), str(self._file_of(scope)))
        if self.executing:
            self._functions.append(function)
        return exactly(function)

    def _classdef(self, node: ast.ClassDef, scope: NameScope) -> Values:
        made = Class(node, scope)
        if self.executing:
            self._classes[id(node)] = made
        return exactly(made)

    def _defaults(self, spec: ast.arguments, scope: NameScope) -> dict[str, Values]:
        """Evaluates the defaults of a function at its definition."""
        ordered = [*spec.posonlyargs, *spec.args]
        pairs = [
            *zip(ordered[len(ordered) - len(spec.defaults) :], spec.defaults, strict=True),
            *zip(spec.kwonlyargs, spec.kw_defaults, strict=True),
        ]
        return {parameter.arg: self.value(one, scope) for parameter, one in pairs if one is not None}


def _scope_of_decorator(decorator: ast.expr, function: Function, node: ast.AST) -> NameScope:
    """Returns the scope for a decorator; a decorator with the name of its method is not that method."""
    callee = decorator.func if isinstance(decorator, ast.Call) else decorator
    itself = isinstance(callee, ast.Name) and callee.id == getattr(node, "name", "")
    in_class = isinstance(getattr(function.scope, "tree", None), ast.ClassDef)
    return function.scope.parent or function.scope if itself and in_class else function.scope


def unseen_arguments(function: object) -> Arguments:
    """Returns the arguments of a call that is not seen: a parameter that is empty by default can be anything."""
    while isinstance(function, PartialFunction):
        function = function.function
    if not isinstance(function, Function):
        return Arguments()
    spec = function.tree.args
    empty = {name: one | UNKNOWN for name, one in (function.defaults or {}).items() if _is_empty(one)}
    return Arguments((), empty, open=spec.vararg is not None or spec.kwarg is not None)


def _is_empty(default: Values) -> bool:
    return any(one is None or (isinstance(one, Sequence | Table) and not one.items) for one in default.known)


def _with_self(first: object, arguments: Arguments) -> Arguments:
    """Returns arguments with an object before them."""
    return Arguments((exactly(first), *arguments.positional), arguments.keywords, arguments.open)


def _method_around(scope: NameScope) -> Any:
    """Returns the scope of the method around a scope."""
    here: Any = scope
    while here is not None and not isinstance(getattr(here.parent, "tree", None), ast.ClassDef):
        here = here.parent
    return here


def _fields(made_of: Class) -> list[str]:
    declared = [node.target for node in made_of.tree.body if isinstance(node, ast.AnnAssign)]
    return [target.id for target in declared if isinstance(target, ast.Name)]
