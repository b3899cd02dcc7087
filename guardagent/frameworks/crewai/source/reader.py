"""Evaluates methods that create crews, tasks and agents, in source code."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from guardagent.frameworks.crewai.extractor.objects import CrewReader, MarkedMethod, is_kind, read_config
from guardagent.workflow.python_source.bodies import ReadableFunction
from guardagent.workflow.python_source.modules import ProgramObject
from guardagent.workflow.python_source.scopes import CodeScope
from guardagent.workflow.python_source.stubs import ObjectStub, converter_of
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Attribute,
    Binding,
    Class,
    Function,
    ImportedName,
    Instance,
    LiveValue,
    NameScope,
    Sequence,
    Values,
    exactly,
    path_of,
    plain_string,
)

if TYPE_CHECKING:
    from guardagent.workflow.python_source.interpreter import Interpreter

_READERS: WeakKeyDictionary[Interpreter, SourceReader] = WeakKeyDictionary()
_CONFIGS = {"agents_config": "config/agents.yaml", "tasks_config": "config/tasks.yaml"}


class SourceReader(CrewReader):
    """Evaluates source code that uses CrewAI, and creates stubs of its objects."""

    def __init__(self, interpreter: Interpreter) -> None:
        super().__init__()
        self.live, self.constants, self.interpreter = False, interpreter.constants, interpreter
        self._created: dict[tuple[int, str], tuple[ProgramObject, Values]] = {}
        self._objects: dict[int, ProgramObject] = {}

    def attribute(self, owner: object, name: str) -> Values:
        if not isinstance(owner, ProgramObject):
            return super().attribute(owner, name) if not isinstance(owner, LiveValue) else UNKNOWN
        if name == "state" and is_kind(owner, "Flow"):
            return self._state_of(owner)
        if is_crew_class(owner.made_of) and (found := self._crew_attribute(owner, name)) is not None:
            return found
        return self.interpreter.attribute(owner, name)

    def call(self, target: object, arguments: Arguments, line: int = 0) -> Values:
        if isinstance(target, ReadableFunction):
            function = target.source()[1]
            return self.return_values(function, arguments) if function is not None else UNKNOWN
        if isinstance(target, MarkedMethod):
            return self._created_by(target.owner, target.method)
        if isinstance(target, ImportedName | Class | LiveValue) or _is_of_framed(target):
            return self._run(target, arguments, line)
        return super().call(target, arguments, line)

    def _run(self, target: object, arguments: Arguments, line: int) -> Values:
        before, self.interpreter.executing = self.interpreter.executing, True
        try:
            return self.interpreter.call(target, arguments, line)
        finally:
            self.interpreter.executing = before

    def _import_any(self, source: ast.Import | ast.ImportFrom, binding: Binding, scope: NameScope) -> Values:
        return self.interpreter._import_any(source, binding, scope)  # noqa: SLF001 - the interpreter resolves the program's files

    def _state_of(self, flow: ProgramObject) -> Values:
        """A state of a flow, with the fields that its class declares."""
        made_of = flow.made_of
        if not isinstance(made_of, Class):
            return UNKNOWN
        parameters = [base.slice for base in made_of.tree.bases if isinstance(base, ast.Subscript)]
        kinds = [one for node in parameters for one in self.interpreter.value(node, made_of.scope).known]
        kinds.append(self.interpreter.member(made_of, "initial_state"))
        declared = next((one for one in kinds if isinstance(one, Class)), None)
        return UNKNOWN if declared is None else exactly(Instance(declared))

    # Classes with `@CrewBase`.

    def object_of(self, made_of: Class) -> ProgramObject:
        """An object of a class that is made without arguments; its tasks and agents are the same in each object."""
        if id(made_of.tree) not in self._objects:
            self._objects[id(made_of.tree)] = self.interpreter.make(made_of)
        return self._objects[id(made_of.tree)]

    def _crew_attribute(self, owner: ProgramObject, name: str) -> Values | None:
        """An attribute specific to classes with `@CrewBase`; None for any other attribute."""
        assert isinstance(owner.made_of, Class)
        if name in _CONFIGS:
            return self._config_of(owner.made_of, name)
        if name in {"tasks", "agents"}:
            marked = [one.name for one in _methods(owner.made_of) if self._is_marked(one, owner.made_of, {name[:-1]})]
            return exactly(Sequence(tuple(self._created_by(owner, method) for method in marked)))
        found = next((one for one in _methods(owner.made_of) if one.name == name), None)
        if found is not None and self._is_marked(found, owner.made_of, {"task", "agent"}):
            return exactly(MarkedMethod(owner, name))
        return None

    def _is_marked(self, method: ast.FunctionDef | ast.AsyncFunctionDef, made_of: Class, names: set[str]) -> bool:
        return any(
            path_of(one).rpartition(".")[2] in names
            for decorator in method.decorator_list
            for one in self.interpreter.value(decorator, made_of.scope).known
        )

    def _created_by(self, owner: Any, method: str) -> Values:
        """The objects that a marked method creates, once."""
        key = (id(owner), method)
        if key not in self._created:
            self._created[key] = (owner, UNKNOWN)
            found = self.interpreter.member(owner.made_of, method)
            created = UNKNOWN if found is None else self.call(found, Arguments((exactly(owner),)))
            for one in created.known:
                self._complete(one, owner, method)
            self._created[key] = (owner, created)
        return self._created[key][1]

    def _complete(self, created: object, owner: ProgramObject, method: str) -> None:
        """Names a task after its method, and resolves the methods that its configuration names."""
        if not isinstance(created, ObjectStub):
            return
        if created.attributes.get("name", exactly(None)).known == (None,):
            created.attributes["name"] = exactly(method)
        for name in ("agent", "context", "tools"):
            if name in created.attributes:
                created.attributes[name] = self._resolved(owner, created.attributes[name])

    def _resolved(self, owner: ProgramObject, values: Values) -> Values:  # type: ignore[override]
        found = Values((), values.complete)
        for one in values.known:
            if isinstance(one, str):
                found |= self._created_by(owner, plain_string(one))
            elif isinstance(one, list) and all(isinstance(each, str) for each in one):
                found |= exactly(Sequence(tuple(self._created_by(owner, each) for each in one)))
            else:
                found |= exactly(one)
        return found

    def _config_of(self, made_of: Class, name: str) -> Values:
        """The configuration of agents or tasks, from the class or from a YAML file beside it."""
        value = self.interpreter.value(ast.Name(name, ast.Load()), CodeScope(made_of.tree, made_of.scope))
        if value.known and not isinstance(value.known[0], str):
            return value
        path = self._folder(made_of) / (plain_string(value.known[0]) if value.known else _CONFIGS[name])
        found = read_config(path)
        if not found:
            converter_of(self.interpreter).note(f"{path}: {name!r} of {made_of.tree.name!r} is missing or empty")
            return UNKNOWN
        return exactly(found)

    def _folder(self, made_of: Class) -> Path:
        methods = [self.interpreter.member(made_of, one.name) for one in _methods(made_of)]
        files = [one.file for one in methods if isinstance(one, Function) and one.file]
        return Path(files[0] if files else self.interpreter.file).parent


def reader_of(interpreter: Interpreter) -> SourceReader:
    """The reader of an interpreter, one each, so that marked methods create their objects once."""
    if interpreter not in _READERS:
        _READERS[interpreter] = SourceReader(interpreter)
    return _READERS[interpreter]


def _methods(made_of: Class) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [one for one in made_of.tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_crew_class(made_of: object) -> bool:
    """Whether a class has the decorator `@CrewBase`."""
    if not isinstance(made_of, Class):
        return False
    return any(getattr(one, "id", getattr(one, "attr", "")) == "CrewBase" for one in made_of.tree.decorator_list)


def _is_of_framed(target: object) -> bool:
    return isinstance(target, Attribute) and isinstance(target.owner, ObjectStub)
