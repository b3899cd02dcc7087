"""Finds the workflows of a program: bound to names, run, returned, or passed on.

A workflow stands alone if it is not part of another of the file. Objects that are bound to names, or that the file
makes when it runs as a script, have known arguments. Then each function that may make a workflow is interpreted with
unknown ones, which finds workflows that no call reaches; an object from a place that is found already is the same
workflow once more.

A function may make a workflow if it uses a framework, itself or through what it mentions. `uses_framework` reads names
only, and is much faster than interpreting the function. Two calls of a function make different objects that are alike,
so `Likeness` compares objects by their content.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.interpreter import Interpreter, unseen_arguments
from guardagent.workflow.python_source.modules import FlowScope, ProgramObject, file_scope
from guardagent.workflow.python_source.scopes import imported_packages
from guardagent.workflow.python_source.values import (
    CallResult,
    Class,
    Function,
    ImportedName,
    NameScope,
    PartialFunction,
    Sequence,
    Stub,
    Table,
    Values,
    function_in,
    is_member_of,
    path_of,
)


def uses_framework(value: object, packages: Collection[str]) -> bool:
    """Whether a function or class can use one of some packages."""
    seen: dict[int, object] = {}
    pending = [value]
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if _is_of_framework(part, packages):
            return True
        pending += _mentioned(part)
    return False


def derives_from(made_of: Class, package: str, name: str) -> bool:
    """Whether a class of the program is derived from a class of a package."""
    evaluator = Evaluator(live=False, follow=lambda _function: False)
    for base in made_of.tree.bases:
        node = base.value if isinstance(base, ast.Subscript) else base
        for value in evaluator.value(node, made_of.scope).known:
            if is_member_of(value, package, name):
                return True
            if isinstance(value, Class) and value is not made_of and derives_from(value, package, name):
                return True
    return False


def _is_of_framework(value: object, packages: Collection[str]) -> bool:
    if isinstance(value, ImportedName):
        return value.path.partition(".")[0] in packages
    if isinstance(value, Function | Class):
        return any(name in packages for name in imported_packages(value.tree))
    return isinstance(value, Stub) and type(value) is not ProgramObject


def _mentioned(value: object) -> Iterator[Any]:
    """Yields the values that the code of a value mentions."""
    if isinstance(value, PartialFunction):
        yield value.function
        yield from _of_owner(value)
    elif isinstance(value, CallResult):
        yield value.callee
    elif isinstance(value, ProgramObject):
        yield value.made_of
        yield from (value for values in list(value.attributes.values()) for value in values.known)
    elif isinstance(value, Function | Class):
        for name in {node.id for node in ast.walk(value.tree) if isinstance(node, ast.Name)}:
            yield from _looked_up(name, value.scope)


def _of_owner(method: PartialFunction) -> Iterator[Any]:
    """Yields the attributes of the object of a method that its code mentions."""
    if not isinstance(method.function, Function):
        return
    mentioned = {node.attr for node in ast.walk(method.function.tree) if isinstance(node, ast.Attribute)}
    for owner in (value for values in method.arguments.positional[:1] for value in values.known):
        if isinstance(owner, ProgramObject):
            yield from (
                attribute for name in mentioned & owner.attributes.keys() for attribute in owner.attributes[name].known
            )


def _looked_up(name: str, scope: NameScope | None) -> Iterator[Any]:
    while scope is not None:
        if isinstance(scope, FlowScope) and name in scope.names:
            yield from scope.names[name].known
            return
        scope = scope.parent


MOST_DEEP = 12


def _is_function(value: object) -> bool:
    """Whether it is a function of the program, or a part of one; a part of a class is no workflow by itself."""
    return isinstance(function_in(value), Function)


class Likeness:
    """Computes keys of objects; equal keys mean equal content, from the same places of the program.

    A key has a number, since keys of objects that share parts would grow exponentially. The keys of one `Likeness`
    can be compared with each other.
    """

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._numbers: dict[Hashable, int] = {}
        self._seen: dict[int, tuple[object, Hashable]] = {}

    def key(self, value: object, depth: int = 0) -> Hashable:
        """Returns the key of an object; recursive parts count by their types."""
        if value is None or isinstance(value, str | int | float):
            return value
        if id(value) in self._open or depth > MOST_DEEP:
            return type(value).__name__
        if not self._open:
            self._seen = {}  # objects may have changed since the last key
        if id(value) in self._seen:
            return self._seen[id(value)][1]
        self._open.add(id(value))
        try:
            content = self._content(value, depth + 1)
        finally:
            self._open.discard(id(value))
        key = "object", self._numbers.setdefault(content, len(self._numbers))
        self._seen[id(value)] = value, key  # keeps it alive
        return key

    def _content(self, value: object, depth: int) -> Hashable:
        if isinstance(value, Function | Class):
            return id(value.tree)
        if isinstance(value, PartialFunction):
            return self.key(value.function, depth), self.key(value.arguments, depth)
        if isinstance(value, Values):
            return tuple(self.key(value, depth) for value in value.known), value.complete
        if isinstance(value, list | tuple):
            return tuple(self.key(part, depth) for part in value)
        if isinstance(value, ProgramObject):
            place = getattr(value, "file", ""), getattr(value, "line", 0)
            return type(value).__name__, place, self.key(value.attributes, depth)
        if isinstance(value, Interpreter):
            return ""
        parents = {"parent_agent", "mode"}  # what a parent sets
        left_out = parents if isinstance(value, dict) else {"parent_agent", "notes"}
        pairs = [(str(name), self.key(field, depth)) for name, field in _fields(value).items() if name not in left_out]
        return type(value).__name__, path_of(value), *pairs


USUAL_NAMES = ("graph", "app", "workflow", "agent", "crew", "team", "flow", "root_agent", "main")
_Site = tuple[str, int]


@dataclass(frozen=True, eq=False)
class FoundWorkflow:
    """A workflow of a program, by its value.

    Attributes:
        name: its name; empty until it is named by its place.
        value: the workflow.
        site: the file and line where it is made.
        bound: it is bound to a name.
        loose: a function with required parameters made it, so its content is partly unknown.
    """

    name: str
    value: object
    site: _Site
    bound: bool = False
    loose: bool = False


class ProgramWorkflows:
    """The workflows of an interpreted file."""

    def __init__(self, interpreter: Interpreter, scope: FlowScope) -> None:
        self._interpreter, self._scope, self._workflow_of = interpreter, scope, interpreter.workflow_of
        self._likeness = Likeness()
        self._file, self._tree = str(interpreter.file), scope.tree
        self._packages = interpreter.modules.packages
        self._imported = _imported_names(scope.tree, scope.names)
        called = (node.func for node in ast.walk(scope.tree) if isinstance(node, ast.Call))
        self._called = {getattr(function, "id", getattr(function, "attr", "")) for function in called}
        self._of_script = [list(values) for values in self._made()]  # before any function is interpreted on its own

    # By name.

    def named(self, name: str) -> object | None:
        """Returns the workflow of a name, also if it is part of another; None if there is none."""
        bound = self._bound()
        if name in bound:
            return bound[name]
        head = name.partition(".")[0]
        for value in self._scope.names[head].known if head in self._scope.names else ():
            if (workflow := self._built_by(head, value).get(name)) is not None:
                return workflow
        listed = {workflow.name: workflow.value for workflow in [*self.all(), *self.imported()]}
        return listed.get(name)

    def _built_by(self, name: str, value: object) -> dict[str, object]:
        """Returns the workflows that a function returns or runs, or that a class stores, returns or runs."""
        workflows: dict[str, object] = {}
        for place, function in self._functions(name, value, workflows):
            before = len(self._interpreter.started)
            returned = self._first(self._results(function))
            started = self._first(self._interpreter.started[before:])
            if (built := returned if returned is not None else started) is not None:
                workflows.setdefault(place, built)
        return workflows

    # All.

    def of_script(self) -> list[FoundWorkflow]:
        """Returns the workflows that the file makes when it runs as a script."""
        bound = self._own_bound()
        return self._alone([*bound, *self._new(self._unbound(*self._of_script), bound)])

    def all(self) -> list[FoundWorkflow]:
        """Returns the workflows of the file that stand alone, in order of its lines."""
        found_workflows = self._in_order(self._alone(self._with_functions(self.of_script())))
        for reader in self._interpreter.readers:
            if hasattr(reader, "arranged"):
                found_workflows = reader.arranged(self._interpreter, found_workflows)
        return found_workflows

    def imported(self) -> list[FoundWorkflow]:
        """Returns the workflows that the file imports, that imported functions build, or else that it runs."""
        imported = {
            name: workflow for name, workflow in self._bound().items() if name.partition(".")[0] in self._imported
        }
        for name in self._imported & self._scope.names.keys():
            for value in self._scope.names[name].known:
                imported |= {
                    place: workflow for place, workflow in self._of_module(name, value) if place not in imported
                }
                if not imported:
                    imported |= self._built_by(name, value)
        for value in self._of_script[0] if not imported else ():
            if (workflow := self._workflow_of(value)) is not None and workflow not in imported.values():
                imported[_free(Path(self._file).stem, set(imported))] = workflow
        places = [
            FoundWorkflow(name, workflow, self._site(workflow), bound=True) for name, workflow in imported.items()
        ]
        return self._alone(_once(places))

    def _of_module(self, name: str, value: object) -> Iterator[tuple[str, object]]:
        if isinstance(value, ProgramObject) and value.made_of is None:
            for inner, values in value.attributes.items():
                if (workflow := self._first(values.known)) is not None:
                    yield f"{name}.{inner}", workflow

    def _own_bound(self) -> list[FoundWorkflow]:
        lines = _bound_lines(self._tree)
        found_workflows = [
            FoundWorkflow(name, workflow, self._own_site(workflow, lines.get(name.partition(".")[0], 1)), bound=True)
            for name, workflow in self._bound().items()
            if name.partition(".")[0] not in self._imported
        ]
        return _once(found_workflows)

    def _own_site(self, value: object, line: int) -> _Site:
        """Returns where a workflow is made; for one that another file makes, the line of its name here."""
        site = self._site(value)
        return site if site[0] == self._file else (self._file, line)

    def _unbound(self, *values: Iterable[object]) -> list[FoundWorkflow]:
        """Returns the workflows among some values that this file makes."""
        unbound: dict[int, object] = {}
        for candidate in (value for several in values for value in several if getattr(value, "executed", True)):
            if (workflow := self._workflow_of(candidate)) is not None:
                unbound.setdefault(id(workflow), workflow)
        made = [FoundWorkflow("", workflow, self._site(workflow)) for workflow in unbound.values()]
        return [found_workflow for found_workflow in made if found_workflow.site[0] == self._file]

    def _new(self, found_workflows: list[FoundWorkflow], known: list[FoundWorkflow]) -> list[FoundWorkflow]:
        """Leaves out what is known already, or part of another: by its content, or its place if that is unknown."""
        classes = [found_workflow.value for found_workflow in known if isinstance(found_workflow.value, Class)]
        made = [id(getattr(found_workflow.value, "made_of", None)) for found_workflow in known]
        whole = {self._likeness.key(found_workflow.value): found_workflow for found_workflow in reversed(known)}
        parts = {
            key
            for found_workflow in [*known, *found_workflows]
            for key in map(self._likeness.key, inside(found_workflow.value))
        }
        values = [workflow.value for workflow in [*known, *found_workflows] if workflow in known or not workflow.loose]
        sites = {self._site(part) for value in values for part in (value, *inside(value))}
        of_others = {self._site(part) for workflow in found_workflows for part in inside(workflow.value)}
        result: list[FoundWorkflow] = []
        for found_workflow in sorted(found_workflows, key=lambda each: each.loose):
            key = self._likeness.key(found_workflow.value)
            is_helper = found_workflow.name.rpartition(".")[2] in self._called and found_workflow.site in of_others
            hidden = found_workflow.loose and (found_workflow.site in sites or is_helper)
            hidden = hidden or id(found_workflow.value) in made or _belongs_to(found_workflow, classes)
            if key in whole or key in parts or hidden:
                continue
            whole[key] = found_workflow
            sites.add(found_workflow.site)
            result.append(found_workflow)
        return result

    def _with_functions(self, known: list[FoundWorkflow]) -> list[FoundWorkflow]:
        """Adds the workflows that functions and methods return, run or pass on."""
        steps = _step_trees(found_workflow.value for found_workflow in known)
        returned: list[FoundWorkflow] = []
        others: list[FoundWorkflow] = []
        for name, value in self._own_values():
            held: dict[str, object] = {}
            for place, function in self._functions(name, value, held):
                if _tree(function) in steps | _step_trees(held.values()) or not uses_framework(
                    function, self._packages
                ):
                    continue  # a step of a workflow, or not about one
                before, loose = [len(made_values) for made_values in self._made()], _has_unknown(function)
                result = self._first(self._results(function))
                if result is not None:
                    returned.append(FoundWorkflow(place, result, self._site(result), loose=loose))
                made = (made_values[size:] for made_values, size in zip(self._made(), before, strict=True))
                others += [replace(workflow, name=place, loose=loose) for workflow in self._unbound(*made)]
            returned += [FoundWorkflow(place, workflow, self._site(workflow)) for place, workflow in held.items()]
        pool = [
            *known,
            *self._new(
                [replace(found_workflow, site=self._own_site(found_workflow.value, 1)) for found_workflow in returned],
                known,
            ),
        ]
        return [*pool, *self._new(self._alone(others), pool)]

    def _results(self, function: object) -> Iterator[object]:
        """Yields what a function returns, and what a function that it defines and returns returns."""
        for value in self._interpreter.run_function(function).known:
            yield value
            if isinstance(value, Function) and uses_framework(value, self._packages):
                yield from self._interpreter.run_function(value).known

    def _made(self) -> tuple[list[Any], ...]:
        return self._interpreter.started, self._interpreter.objects, self._interpreter.graphs

    def _own_values(self) -> Iterator[tuple[str, object]]:
        """Yields the functions and classes of this file, but no class that is a workflow itself."""
        for name, values in list(self._scope.names.items()):
            for value in values.known if name not in self._imported else ():
                if self._workflow_of(value) is None:
                    yield name, value

    def _functions(self, name: str, value: object, held: dict[str, object]) -> Iterator[tuple[str, object]]:
        """Yields a function, or the methods of a class; puts the workflows that its objects store into `held`."""
        if _is_function(value):
            yield name, value
        if not isinstance(value, Class):
            return
        instance = self._instance(value)
        held |= dict(self._attributes(name, instance))
        done = _run_by_constructor(value.tree)
        self._fill(instance, value.tree, done)
        for node in value.tree.body:
            if not _is_method(node) or node.name in done:
                continue
            if not node.name.startswith("__"):
                for method in self._interpreter.read_attribute(instance, node.name).known:
                    if isinstance(method, Function | PartialFunction):
                        yield f"{name}.{node.name}", method
                    elif (workflow := self._workflow_of(method)) is not None:  # of a property
                        held.setdefault(f"{name}.{node.name}", workflow)

    def _instance(self, kind: Class) -> ProgramObject:
        """Returns an object of a class: one that the script has made, or one with unknown arguments."""
        named = (value for values in self._scope.names.values() for value in values.known)
        every = (value for value in (*named, *self._of_script[1]) if isinstance(value, ProgramObject))
        made = [value for value in every if value.made_of is kind]
        return made[0] if made else self._interpreter.make(kind)

    def _fill(self, program_object: ProgramObject, tree: ast.ClassDef, done: set[str]) -> None:
        """Runs the methods that set attributes which the constructor leaves empty, and make nothing of a framework."""
        empty = {name for name, values in program_object.attributes.items() if values.known == (None,)}
        for node in tree.body if empty else ():
            if _is_method(node) and node.name not in done and empty & _own_attributes(node):
                for method in self._interpreter.read_attribute(program_object, node.name).known:
                    if isinstance(method, PartialFunction) and not uses_framework(method, self._packages):
                        self._interpreter.run_function(method)

    def _bound(self) -> dict[str, object]:
        """Returns the workflows that names of the file are bound to, and the attributes of their objects."""
        bound: dict[str, object] = {}
        for name, values in self._scope.names.items():
            for value in values.known:
                if (workflow := self._workflow_of(value)) is not None:
                    bound[name] = workflow
                elif isinstance(value, ProgramObject) and isinstance(value.made_of, Class):
                    bound |= dict(self._attributes(name, value))
        return bound

    def _attributes(self, name: str, owner: ProgramObject) -> Iterator[tuple[str, object]]:
        for attribute, values in owner.attributes.items():
            if (workflow := self._first(values.known)) is not None:
                yield f"{name}.{attribute}", workflow

    def _first(self, values: Iterable[object]) -> object | None:
        return next((workflow for value in values if (workflow := self._workflow_of(value)) is not None), None)

    def _site(self, value: object) -> _Site:
        """Returns the file and line where a workflow is made or defined; without one, this file."""
        made = value.made_of if isinstance(value, ProgramObject) and not hasattr(type(value), "kind") else value
        function = function_in(made if isinstance(made, Class) else getattr(made, "function", None))
        if isinstance(function, Class | Function):
            scope = file_scope(function.scope)
            own = getattr(function, "file", "") or (str(scope.file) if scope is not None else "")
            return own or self._file, function.tree.lineno
        return str(getattr(value, "file", "") or self._file), int(getattr(value, "line", 0) or 1)

    def _alone(self, workflows: list[FoundWorkflow]) -> list[FoundWorkflow]:
        """Drops workflows that are part of another; keeps one of each cycle: usual, run, or the last."""
        parts = {id(workflow): {id(part) for part in inside(workflow.value)} for workflow in workflows}
        ranked = sorted(enumerate(workflows), key=lambda pair: (_rank(pair[1]), not self._is_run(pair[1]), -pair[0]))
        kept: list[FoundWorkflow] = []
        for _, candidate in ranked:
            around = [each for each in workflows if each is not candidate and id(candidate.value) in parts[id(each)]]
            outer = [each for each in around if id(each.value) not in parts[id(candidate)]]
            if not outer and not any(each in kept for each in around):
                kept.append(candidate)
        return [workflow for workflow in workflows if workflow in kept]

    def _is_run(self, found_workflow: FoundWorkflow) -> bool:
        return any(self._workflow_of(each) is found_workflow.value for each in self._of_script[0])

    def _in_order(self, workflows: list[FoundWorkflow]) -> list[FoundWorkflow]:
        """Names the workflows that are bound to no name of the file by their places, and sorts all."""
        places = _Places(self._tree)
        taken = {workflow.name for workflow in workflows if workflow.bound}
        named: list[FoundWorkflow] = []
        bases = [workflow.name or places.function_at(workflow.site[1]) for workflow in workflows if not workflow.bound]
        for workflow in workflows:
            name = workflow.name if workflow.bound else workflow.name or places.function_at(workflow.site[1])
            if not workflow.bound and (not name or bases.count(name) > 1 or name in taken):
                name = _free(".".join(filter(None, (name, places.variable_at(workflow.site[1])))), taken)
            taken.add(name)
            named.append(replace(workflow, name=name, site=(workflow.site[0], places.line_of(name, workflow.site[1]))))
        return sorted(named, key=lambda workflow: workflow.site[1])


def _step_trees(workflows: Iterable[object]) -> set[object]:
    """Returns the definitions of the functions in some workflows."""
    return {_tree(part) for each in workflows for part in inside(each, functions=True)} - {None}


def _tree(function: object) -> object | None:
    """Returns the definition of a function or a bound method; None for other values."""
    inner = function_in(function)
    return inner.tree if isinstance(inner, Function) else None


def inside(value: object, *, functions: bool = False) -> Iterator[object]:
    """Yields the objects in a workflow, recursively; with `functions`, also its functions."""
    seen: dict[int, object] = {id(value): value}
    pending = [value]
    while pending:
        for member in _members(pending.pop()):
            if id(member) not in seen:
                seen[id(member)] = member
                pending.append(member)
    for member in list(seen.values())[1:]:
        if functions or not isinstance(member, Function | PartialFunction):
            yield member


def _members(value: object) -> Iterable[object]:
    match value:
        case Values(known=members) | Sequence(items=members):
            return members
        case Table(items=pairs):
            return [part for pair in pairs for part in pair]
        case ProgramObject(attributes=attributes):  # an agent does not contain its parent
            return [attribute for name, attribute in attributes.items() if name != "parent_agent"]
        case Function() | PartialFunction() | Class() | Interpreter():
            return ()
        case list() | tuple():
            return value
    return list(_fields(value).values())


def _fields(value: object) -> Mapping[str, object]:
    """Returns a mapping itself, or the attributes of a stub."""
    if isinstance(value, Mapping):
        return value
    return vars(value) if type(value).__module__.startswith("guardagent.") and hasattr(value, "__dict__") else {}


def _belongs_to(workflow: FoundWorkflow, classes: list[Class]) -> bool:
    """Whether a workflow is an object of a class, or is made by its methods."""
    spans = [(made.tree.lineno, made.tree.end_lineno or 0) for made in classes]
    return getattr(workflow.value, "made_of", None) in classes or any(a <= workflow.site[1] <= b for a, b in spans)


def _run_by_constructor(tree: ast.ClassDef) -> set[str]:
    """Returns the methods that `__init__` calls, directly or through others."""
    methods = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    run: set[str] = set()
    pending = ["__init__"]
    while pending:
        for node in ast.walk(methods.get(pending.pop(), ast.Pass())):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) if name in methods:
                    pending += [] if name in run else [name]
                    run.add(name)
    return run


def _is_method(node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _own_attributes(method: ast.AST) -> set[str]:
    """Returns the attributes of its object that a method sets."""
    nodes = [node for node in ast.walk(method) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return {node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == "self"}


def _has_unknown(function: object) -> bool:
    """Whether a function has parameters whose values are unknown, as it was not passed them."""
    passed, unseen = 0, unseen_arguments(function)
    while isinstance(function, PartialFunction):
        passed += len(function.arguments.positional)
        function = function.function
    if not isinstance(function, Function):
        return False
    spec = function.tree.args
    required = len(spec.posonlyargs) + len(spec.args) - len(spec.defaults) - passed
    return required > 0 or bool(unseen.keywords or unseen.open) or any(default is None for default in spec.kw_defaults)


def _rank(workflow: FoundWorkflow) -> int:
    return USUAL_NAMES.index(workflow.name) if workflow.bound and workflow.name in USUAL_NAMES else len(USUAL_NAMES)


def _once(found_workflows: list[FoundWorkflow]) -> list[FoundWorkflow]:
    """Leaves out other names of the same object, and a class if one of its objects has a name."""
    best: dict[int, FoundWorkflow] = {}
    for found_workflow in found_workflows:
        before = best.get(id(found_workflow.value))
        if before is None or _rank(found_workflow) < _rank(before):
            best[id(found_workflow.value)] = found_workflow
    classes = {id(getattr(best_workflow.value, "made_of", None)) for best_workflow in best.values()}
    return [
        found_workflow
        for found_workflow in found_workflows
        if best[id(found_workflow.value)] is found_workflow and id(found_workflow.value) not in classes
    ]


class _Places:
    """The functions and local variables around the lines of a file."""

    def __init__(self, tree: ast.AST) -> None:
        self._spans, self._bound = list(_definitions(tree, "")), _bound_lines(tree)
        self._variables: dict[int, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    self._variables[line] = node.targets[0].id

    def function_at(self, line: int) -> str:
        return next((name for name, first, last in self._spans if first <= line <= last), "")

    def line_of(self, name: str, line: int) -> int:
        """Returns the line of a workflow; of one that a helper makes, the line of its name."""
        own = {name: range(first, last + 1) for name, first, last in self._spans}
        if name in own:
            return line if line in own[name] else own[name].start
        head = name.partition(".")[0]
        return (
            self._bound.get(head, line)
            if head != self.function_at(line).partition(".")[0] and any(line in lines for lines in own.values())
            else line
        )

    def variable_at(self, line: int) -> str:
        return self._variables.get(line, f"line{line}")


def _definitions(tree: ast.AST, outside: str) -> Iterator[tuple[str, int, int]]:
    """Yields the functions at the top level of a file and of its classes, with their lines."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _definitions(node, f"{outside}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{outside}{node.name}", node.lineno, node.end_lineno or node.lineno


def _free(name: str, taken: set[str]) -> str:
    number = 2
    while (f"{name}_{number}" if name in taken else name) in taken:
        number += 1
    return f"{name}_{number}" if name in taken else name


def _imported_names(tree: ast.AST, names: Iterable[str]) -> set[str]:
    """Returns those of some names that only imports of the file bind."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    imported = {(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names}
    return (set(names) if "*" in imported else imported) - _bound_lines(tree).keys()


def _bound_lines(tree: ast.AST) -> dict[str, int]:
    """Returns the line of the last assignment or definition of each name outside of functions."""
    bound_lines: dict[str, int] = {}
    pending = list(ast.iter_child_nodes(tree))
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound_lines[node.name] = node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound_lines[node.id] = node.lineno
        else:
            pending += ast.iter_child_nodes(node) if not isinstance(node, ast.Lambda) else []
    return bound_lines
