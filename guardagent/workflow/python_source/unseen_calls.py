"""Calls of code that the source does not show: code in strings, modules by computed names, plugins and callbacks.

Such code can change the objects of the program, which then can have any further values.
"""

from __future__ import annotations

import ast
import os
import sys

from guardagent.workflow.python_source.evaluator import enclosing
from guardagent.workflow.python_source.modules import FlowScope, ModuleObject, ProgramObject, file_of, file_scope
from guardagent.workflow.python_source.objects import ClassEvaluator, Namespace, changes_of
from guardagent.workflow.python_source.stubs import ObjectStub, copy_of
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Attribute,
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

_CODE = {"builtins.exec", "builtins.eval", "code.InteractiveInterpreter", "ctypes.pythonapi"}
_BY_NAME = {"builtins.__import__", "importlib.import_module"}
_PLUGINS = {
    "importlib.metadata.entry_points", "importlib_metadata.entry_points", "pkg_resources.iter_entry_points",
    "pkg_resources.load_entry_point", "runpy.run_path", "runpy.run_module", "imp.load_source", "pluggy.PluginManager",
    "importlib.util.module_from_spec",
}  # fmt: skip
_NAMES = {"builtins.globals", "builtins.locals", "builtins.vars"}
_COPIES = {"dataclasses.replace", "copy.copy", "copy.deepcopy", "copy.replace"}


class UnseenCode(ClassEvaluator):
    """Evaluates calls of code that the source does not show."""

    def of_unseen(self, target: object, arguments: Arguments, node: ast.Call, scope: NameScope) -> Values | None:
        """Evaluates a call that changes names or objects otherwise than by a statement; None for other calls."""
        path = path_of(target)
        if path in _NAMES:
            return self._namespace(path, arguments, scope)
        if target is setattr or path.endswith("object.__setattr__") or getattr(target, "__name__", "") == "__setattr__":
            return self.set_by_name(arguments)
        if path in _BY_NAME:
            return self._by_name(arguments, node, scope)
        if path == "importlib.reload":
            self.open(Namespace(one.scope) for one in (arguments.get("", 0) or UNKNOWN).known
                      if isinstance(one, ModuleObject) and one.scope is not None)  # fmt: skip
        if path in _CODE:
            self._run_code(arguments, node, scope)
        elif path in _PLUGINS:
            self._open_files(node, scope)
        if path in _COPIES:
            return self._copied(arguments)
        return self.changed_by(target, arguments)

    def item(self, owner: object, key: Values) -> Values:
        if not isinstance(owner, Namespace):
            return super().item(owner, key)
        found = NOTHING
        for name in key.strings or ():
            held = owner.of
            found |= self.name(name, held) if isinstance(held, FlowScope) else self.attribute(held, name)
        return found if found.known else UNKNOWN

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Values:
        match node.value:
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules") if self.executing:
                self._open_all(node, scope)
        return super()._subscript(node, scope)

    def _copied(self, arguments: Arguments) -> Values | None:
        first = arguments.get("", 0) or UNKNOWN
        if not first.known or not all(isinstance(one, ObjectStub) for one in first.known):
            return None
        return Values(tuple(copy_of(one, Arguments((), arguments.keywords)) for one in first.known), first.complete)

    def _namespace(self, path: str, arguments: Arguments, scope: NameScope) -> Values | None:
        found = arguments.get("", 0) if path == "builtins.vars" else None
        if found is not None:
            held = tuple(Namespace(one.scope if isinstance(one, ModuleObject) and one.scope else one)
                         for one in found.known if isinstance(one, ProgramObject))  # fmt: skip
            return Values(held, complete=False)
        of = file_scope(scope) if path == "builtins.globals" else _flow(scope)
        return exactly(Namespace(of)) if of is not None else None

    def _by_name(self, arguments: Arguments, node: ast.Call, scope: NameScope) -> Values:
        """Evaluates an import by name; a computed one can be of any file of the program."""
        names = (arguments.get("name", 0) or UNKNOWN).strings
        if not names or any(name.startswith(".") for name in names):
            self._open_files(node, scope)
            return UNKNOWN
        modules = {name: self._modules.module(name, scope) for name in names}
        return Values(tuple(found or ImportedName(name) for name, found in modules.items()))

    def _open_files(self, node: ast.AST, scope: NameScope) -> None:
        """Allows for any changes of objects of imported files, and of collections, by plugins that are not known."""
        note = self._note_of("loads modules that the source does not determine", node, scope)
        self._modules.open()
        for one in (*self.objects, *self.graphs):
            if getattr(one, "file", str(self.file)) != str(self.file):
                one.leave_unfinished(note)
        for held in self._scopes:
            held.leave_unfinished()

    def _open_all(self, node: ast.AST, scope: NameScope) -> None:
        """Allows for any changes of all names and objects."""
        note = self._note_of("runs code that is not in the source", node, scope)
        for one in (*self.objects, *self.graphs):
            one.leave_unfinished(note)
        for held in (*self._modules, *self._scopes):
            held.open_names()
            held.leave_unfinished()
        self._changes += 1

    def _run_code(self, arguments: Arguments, node: ast.AST, scope: NameScope) -> None:
        """Allows for the effects of code in a string: on the names that it is passed, or on all names."""
        own_names = [one for each in arguments.positional[1:] for one in each.known]
        if own_names and all(isinstance(one, Table) for one in own_names):
            held = (each for table in own_names for _, values in table.items for each in values.known)
            self.open([*own_names, *(one for one in held if not isinstance(one, Class))])
        else:
            self._open_all(node, scope)

    def _note_of(self, reason: str, node: ast.AST, scope: NameScope | None) -> str:
        where = os.path.relpath(self.current_file if scope is None else file_of(scope), self.file.parent)
        note = f"{where!r} line {getattr(node, 'lineno', 0)} {reason}"
        self.not_followed[note] = None
        return note

    # Callbacks, and objects that are passed to unknown code.

    def passed(self, callee: Values, arguments: Arguments, node: ast.Call) -> None:
        """Allows for the changes by a callee outside of the program: of its arguments, and by functions in them."""
        unknown = not callee.complete or any(isinstance(one, ImportedName) for one in callee.known)
        if not unknown and callee.known:
            return
        values = [one for each in (*arguments.positional, *arguments.keywords.values()) for one in each.known]
        for one in values:
            if isinstance(one, Function | PartialFunction):
                self.changes_later(one, Arguments(arguments.positional[:1], open=True))
            elif isinstance(one, Attribute):
                self.open([one.owner] if isinstance(one.owner, Sequence | Table) else [])
        named = bool(callee.known) or not isinstance(node.func, ast.Attribute)  # not a method of an unknown object
        if named and all(map(self._is_foreign_function, callee.known)):
            self.open(one for one in values if isinstance(one, Sequence | Table | ObjectStub | Namespace))
            graphs = {id(one) for one in values if getattr(one, "compiled_from", None) is None}
            for graph in [one for one in self.graphs if id(one) in graphs]:  # a compiled one cannot change
                graph.leave_unfinished(
                    self._note_of("passes a graph to code that the source does not show", node, None)
                )

    def _is_foreign_function(self, target: object) -> bool:
        """Whether a callee is a function of a package that is not known."""
        path = path_of(target)
        top, _, name = path.partition(".")[0], "", path.rpartition(".")[2]
        known = top in sys.stdlib_module_names or top in _HARMLESS or self._modules.is_framework(top)
        return bool(path) and not known and name[:1].islower()

    def changes_later(self, function: object, arguments: Arguments = Arguments(open=True)) -> None:  # noqa: B008 - frozen
        """Allows for the changes that a function makes whenever it may run, with some arguments that are known."""
        while isinstance(function, PartialFunction):
            known, function = function.arguments, function.function
            arguments = Arguments(known.positional, known.keywords, open=True)
        if not isinstance(function, Function):
            return
        found = changes_of(function.tree)
        if not found:
            return
        self._changes += 1
        scope = self.body_scope(function, arguments)
        before, self.executing = self.executing, False
        try:
            for change in found.places:
                self._open_place(self._held(change.held, scope), change.name)
        finally:
            self.executing = before
        file = file_scope(function.scope)
        for name in found.names if file is not None else ():
            if file is not None and name in file.names:
                file.names[name] = Values(file.names[name].known, complete=False)

    def _held(self, node: ast.expr, scope: NameScope) -> Values:
        """Returns the values of an expression; of a name, those that it is bound to, before they change."""
        here: NameScope | None = scope if isinstance(node, ast.Name) else None
        while here is not None and isinstance(node, ast.Name):
            if bound := [one for one in here.find(node.id) if not one.grows]:
                fresh = here is scope and all(not one.steps and self._makes_new(one.source, scope) for one in bound)
                return NOTHING if fresh else self._bound(bound, here)
            here = enclosing(here)
        return self.value(node, scope)

    def _makes_new(self, node: object, scope: NameScope) -> bool:
        """Whether an expression makes an object that nothing else holds: a display, or an object of a framework."""
        if not isinstance(node, ast.Call):
            return isinstance(node, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp)
        called = self.value(node.func, scope) if isinstance(node.func, ast.Name) else UNKNOWN
        paths = [path_of(one) if isinstance(one, ImportedName) else "" for one in called.known]
        return called.complete and all(
            path.rpartition(".")[2][:1].isupper() and self._modules.is_framework(path.partition(".")[0])
            for path in paths
        )

    def _open_place(self, owners: Values, name: str) -> None:
        for one in owners.known:
            if name and isinstance(one, ProgramObject) and not isinstance(one, ModuleObject):
                one.attributes[name] = Values(one.attributes.get(name, UNKNOWN).known, complete=False)
            elif name and isinstance(one, ModuleObject) and one.scope is not None and name in one.scope.names:
                one.scope.names[name] = Values(one.scope.names[name].known, complete=False)
            elif isinstance(one, Sequence | Table | Namespace):
                self.open([one])


_HARMLESS = {
    "langchain",
    "langchain_core",
    "langchain_community",
    "fastapi",
    "uvicorn",
    "streamlit",
    "rich",
    "pydantic",
}


def _flow(scope: NameScope | None) -> FlowScope | None:
    while scope is not None and not isinstance(scope, FlowScope):
        scope = scope.parent
    return scope
