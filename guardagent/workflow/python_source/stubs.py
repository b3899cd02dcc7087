"""Stubs for the objects and functions of frameworks, in a program that exists only as code.

A reader declares the classes of its framework (`ClassStub`). If the program constructs an object of such a class or of
a subclass, the interpreter creates an object of a Python class with the same name, module and bases, so the extractor
of the framework can read it like a live object. The extractor sees its attributes as live values: lists, strings,
functions (`FunctionStub`), and `UnknownValue` for values that the source does not determine.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from guardagent.workflow.extraction import Alternatives, UnknownValue
from guardagent.workflow.python_source.bodies import FrameworkNames, FunctionSummary, ReadableFunction, summarize_code
from guardagent.workflow.python_source.evaluator import Evaluator, underlying
from guardagent.workflow.python_source.modules import (
    FlowScope,
    ModuleObject,
    Namespace,
    ProgramFiles,
    ProgramObject,
    StepBudget,
)
from guardagent.workflow.python_source.scopes import CodeScope, bound_name
from guardagent.workflow.python_source.values import (
    NOTHING,
    REST,
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    Class,
    Function,
    ImportedName,
    LiveValue,
    PartialFunction,
    Sequence,
    Stub,
    Table,
    Values,
    current,
    exactly,
    path_of,
    plain_string,
)

MOST_WRAPPED = 10


@dataclass(eq=False)
class FunctionStub(ReadableFunction):
    """A function of the program, with its bound arguments."""

    function: object
    interpreter: Program
    name: str = ""
    _summaries: dict[object, tuple[Arguments, FunctionSummary]] = field(default_factory=dict, init=False, repr=False)

    @property
    def __name__(self) -> str:
        function, _ = unbound(self.function)
        if (chosen := self.interpreter.renamed.get(id(function))) and chosen[1].strings:
            return min(chosen[1].strings)
        return self.name or defined_name(self.interpreter, self.function)

    def __call__(self, *_arguments: object) -> None:
        """Raises an error, since the program is never run."""
        raise TypeError(f"{self.__name__!r} cannot be called: only its source is read")

    def summary(self, arguments: Arguments, names: FrameworkNames) -> FunctionSummary:
        key = arguments.signature, names
        if key not in self._summaries:  # agents share their tools
            function, own = unbound(self.function)
            self._summaries[key] = arguments, summarize_code(function, self.interpreter, own.then(arguments), names)
        return self._summaries[key][1]

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


def defined_name(evaluator: Evaluator, function: object, depth: int = 0) -> str:
    """Returns the name of a function; of one with `functools.wraps`, that of the function that it wraps."""
    inner, _ = unbound(function)
    for mark in getattr(inner.tree, "decorator_list", ()):
        match mark:
            case ast.Call(func=ast.Name(id="wraps") | ast.Attribute(attr="wraps"), args=[argument, *_]) if (
                depth < MOST_WRAPPED
            ):
                wrapped = evaluator.value(argument, inner.scope).known
                if len(wrapped) == 1 and isinstance(wrapped[0], Function | PartialFunction):
                    return defined_name(evaluator, wrapped[0], depth + 1)
                if len(wrapped) == 1 and isinstance(wrapped[0], ImportedName):
                    return wrapped[0].path.rpartition(".")[2]
    return str(getattr(inner.tree, "name", "<lambda>"))


# --- objects

REQUIRED: Any = ...
"""The default of a required field of a `ClassStub`."""

Method = Callable[["ObjectStub", Arguments, int], Values]


class UnfinishedGraph(Protocol):
    """A workflow that a program builds call by call."""

    def leave_unfinished(self, why: str) -> None:
        """Allows for any further calls, since the rest of the program is not followed."""
        ...


@dataclass(frozen=True, eq=False)
class ClassStub:
    """A class of a framework, as far as graphs depend on it.

    Attributes:
        name: the name of the class.
        module: the module that defines it.
        base: the base class.
        fields: the parameters of the constructor in order, with defaults, after those of the base class.
        list_fields: the fields with lists; an unknown element is an `UnknownValue`.
        ordered_fields: the list fields whose order matters; an ambiguous element is an `Alternatives`.
        optional_elements: the list fields in which an element that may be missing is an `Alternatives`, too.
        fallbacks: the values of unknown attributes; without one, the value is an `UnknownValue`, which is false.
        finish: the work of the constructor after it has stored its arguments.
        methods: the results and effects of methods; other methods are unknown.
        positional: the positional parameters of the constructor, in order, if these are not all parameters.
        aliases: other names of the class in programs.
        suffix: the suffix of the names of other classes that count as this class.
    """

    name: str
    module: str
    base: ClassStub | None = None
    fields: Mapping[str, object] = field(default_factory=dict)
    list_fields: frozenset[str] = frozenset()
    ordered_fields: frozenset[str] = frozenset()
    optional_elements: frozenset[str] = frozenset()
    fallbacks: Mapping[str, object] = field(default_factory=dict)
    finish: Callable[[ObjectStub], None] | None = None
    methods: Mapping[str, Method] = field(default_factory=dict)
    positional: tuple[str, ...] | None = None
    aliases: tuple[str, ...] = ()
    suffix: str = ""

    @cached_property
    def lineage(self) -> tuple[ClassStub, ...]:
        """The class and its base classes."""
        return (self, *(self.base.lineage if self.base else ()))

    @cached_property
    def all_fields(self) -> dict[str, object]:
        return {**(self.base.all_fields if self.base else {}), **self.fields}

    @cached_property
    def type(self) -> type[ObjectStub]:
        """The Python class of its stubs."""
        return type(self.name, (self.base.type if self.base else ObjectStub,), {"__module__": self.module})

    @cached_property
    def package(self) -> str:
        """The package from which programs import it, directly or from a submodule."""
        parts = self.module.split(".")
        return ".".join(parts[:2] if parts[0] == "google" else parts[:1])


class StubAttributes(dict[str, Values]):
    """The attributes of a stub; one that was never assigned has the value that its class gives it."""

    def __init__(self, owner: ObjectStub, values: Mapping[str, Values] | None = None) -> None:
        super().__init__(values or {})
        self._owner = owner

    def __missing__(self, name: str) -> Values:
        return self._owner.interpreter.declared_by_class(self._owner, name) or UNKNOWN


class ObjectStub(ProgramObject):
    """A stub for an object of a framework's class or of a subclass in the program.

    Attributes:
        interpreter: the interpreter of the program.
        kind: the class of the framework.
        line: the line of its construction.
        file: the file of its construction.
        variable: the name to which the program assigns it, if any.
    """

    def __init__(self, interpreter: Program, kind: ClassStub, made_of: object, place: tuple[str, int]) -> None:
        super().__init__(made_of, StubAttributes(self))
        self.interpreter, self.kind = interpreter, kind
        self.file, self.line = place
        self.variable = ""
        interpreter.objects.append(self)

    def attribute(self, name: str) -> Values | None:
        """Returns the possible values of an attribute."""
        return self.interpreter.attribute(self, name)

    def known_attribute(self, name: str) -> Values | None:
        """Returns the possible values of an attribute; None if nothing defines it."""
        if name in self.attributes:
            return self.attributes[name]
        return self.interpreter.declared_by_class(self, name)

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute as the extractor sees it."""
        if name.startswith("__") and name not in self.__attributes():
            raise AttributeError(name)
        values = self.known_attribute(name)
        if values is None and name in self.kind.all_fields:
            values = UNKNOWN  # its constructor has not assigned it yet
        if values is None:
            raise AttributeError(f"{type(self).__name__!r} has no known attribute {name!r}")
        return self.interpreter.converter.attribute(self, name, values)

    def __attributes(self) -> dict[str, Values]:
        values: dict[str, Values] = object.__getattribute__(self, "attributes")
        return values

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        """The attributes as the extractor sees them, for `vars`."""
        return {name: getattr(self, name) for name in list(self.attributes)}


# --- construction


def kind_of(interpreter: Program, target: object) -> ClassStub | None:
    """Returns the class stub of a name; None if there is none."""
    if isinstance(target, ClassStub):
        return target
    if not isinstance(target, ImportedName):
        return None
    return interpreter.kinds.of(target.path)


class ClassStubs:
    """The class stubs of all frameworks, by the paths that programs import."""

    def __init__(self) -> None:
        self._named: dict[str, list[ClassStub]] = {}
        self._ending: list[ClassStub] = []
        self._made: dict[str, ClassStub] = {}

    def add(self, kinds: Iterable[ClassStub]) -> None:
        for kind in kinds:
            for name in (kind.name, *kind.aliases):
                self._named.setdefault(name, []).append(kind)
            if kind.suffix:
                self._ending.append(kind)

    def of(self, path: str) -> ClassStub | None:
        """Returns the class stub of a path; for an unknown class, the one with its suffix."""
        module, _, name = path.rpartition(".")
        for kind in self._named.get(name, ()):
            if _is_in(module, kind.package):
                return kind
        if path not in self._made and name[:1].isupper():
            like = [stub for stub in self._ending if name.endswith(stub.suffix) and _is_in(module, stub.package)]
            if like:
                self._made[path] = ClassStub(name, module, like[0], positional=like[0].positional)
        return self._made.get(path)


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def make(interpreter: Program, kind: ClassStub, arguments: Arguments, line: int, **more: Values) -> ObjectStub:
    """Constructs a stub of a framework's class, with further attributes."""
    place = str(interpreter.current_file), line
    stub = _same_of_round(interpreter, (kind, place), arguments, lambda: kind.type(interpreter, kind, kind, place))
    stub.attributes |= more
    construct(stub, kind, arguments)
    return stub


def _same_of_round(
    interpreter: Program, key: object, arguments: Arguments, new: Callable[[], ObjectStub]
) -> ObjectStub:
    """Returns a new object; in a loop with unknown rounds, one object per name stands for all rounds."""
    if not interpreter.rounds:
        return new()
    named_ = arguments.keywords.get("name") or (arguments.positional or (NOTHING,))[0]
    full = (key, named_.strings)
    if full not in interpreter.rounds[-1]:
        interpreter.rounds[-1][full] = new()
    return interpreter.rounds[-1][full]


def construct(stub: ObjectStub, kind: ClassStub, arguments: Arguments) -> None:
    """Runs the constructor of a framework's class."""
    order = kind.positional if kind.positional is not None else tuple(kind.all_fields)
    for name, default in kind.all_fields.items():
        argument = arguments.get(name, order.index(name) if name in order else None)
        if argument is not None:
            before = stub.attributes.get(name, NOTHING) if stub.interpreter.rounds else NOTHING
            stub.attributes[name] = before | argument
        elif name not in stub.attributes and stub.interpreter.member(stub.made_of, name) is None:
            stub.attributes[name] = as_values(default) if default is not REQUIRED else UNKNOWN
    for name, argument in arguments.keywords.items():
        if name != REST:
            stub.attributes.setdefault(name, argument)
    for class_stub in reversed(kind.lineage):
        if class_stub.finish is not None:
            class_stub.finish(stub)


def record_start(owner: ObjectStub, _arguments: Arguments, _line: int) -> Values:
    """Records that the program runs an object, by one of its methods."""
    owner.interpreter.started.append(owner)
    return UNKNOWN


def as_values(value: object) -> Values:
    """Returns a plain value as values of code, whose lists and dictionaries can still grow."""
    if isinstance(value, list | tuple):
        return exactly(Sequence(tuple(map(as_values, value))))
    if isinstance(value, dict):
        return exactly(Table(tuple((exactly(key), as_values(part)) for key, part in value.items())))
    return exactly(value)


def framework_kind(interpreter: Program, made_of: Class, inside: frozenset[int] = frozenset()) -> ClassStub | None:
    """Returns the framework's class that a class of the program inherits from; None if there is none."""
    for base in bases_of(interpreter, made_of):
        class_stub: ClassStub | None = None
        if not isinstance(base, Class):
            class_stub = kind_of(interpreter, base)
        elif id(base.tree) not in inside:
            class_stub = framework_kind(interpreter, base, inside | {id(made_of.tree)})
        if class_stub is not None:
            return class_stub
    return None


def bases_of(interpreter: Program, made_of: Class) -> list[object]:
    """Returns the base classes of a class of the program."""
    return [value for base in made_of.tree.bases for value in interpreter.value(base, made_of.scope).known]


def object_of(interpreter: Program, made_of: Class, arguments: Arguments, line: int) -> ObjectStub | None:
    """Returns a new stub of a class of the program, before its constructor; None without a framework's base class."""
    kind = framework_kind(interpreter, made_of)
    if kind is None:
        return None
    kind_, place = interpreter.converter.type_of(made_of, kind), (str(interpreter.current_file), line)
    return _same_of_round(
        interpreter, (id(made_of.tree), place), arguments, lambda: kind_(interpreter, kind, made_of, place)
    )


def name_after(value: object, target: ast.expr) -> None:
    """Gives a stub the name of the variable or attribute to which the program assigns it."""
    if isinstance(value, ObjectStub) and isinstance(target, ast.Name | ast.Attribute):
        value.variable = target.id if isinstance(target, ast.Name) else target.attr


def copy_of(object_stub: ObjectStub, arguments: Arguments) -> ObjectStub:
    """Returns a copy of a stub with changed attributes."""
    stub = type(object_stub)(
        object_stub.interpreter, object_stub.kind, object_stub.made_of, (object_stub.file, object_stub.line)
    )
    stub.attributes = StubAttributes(stub, {**object_stub.attributes, **arguments.keywords})
    return stub


# --- conversion for extractors


class ValueConverter:
    """Converts the values of code to live values, each once.

    Attributes:
        notes: the values that the extractor has read and the source does not determine.
    """

    def __init__(self, interpreter: Program) -> None:
        self.interpreter = interpreter
        self.notes: dict[str, None] = {}
        self._attributes: dict[tuple[int, str], tuple[Values, Any]] = {}
        self._functions: dict[object, FunctionStub] = {}
        self._types: dict[int, type] = {}
        self._others: dict[int, tuple[object, Any]] = {}

    def copy(self) -> ValueConverter:
        """Returns a converter with the same types and notes, whose later notes stay its own."""
        result = ValueConverter(self.interpreter)
        result.notes, result._types = dict(self.notes), self._types
        return result

    def attribute(self, owner: ObjectStub, name: str, values: Values) -> Any:
        """Converts an attribute of a stub."""
        seen = self._attributes.get((id(owner), name))
        if seen is not None and seen[0] is values:
            return seen[1]
        result = self._attribute(owner, name, values)
        self._attributes[id(owner), name] = values, result
        return result

    def _attribute(self, owner: ObjectStub, name: str, values: Values) -> Any:
        what = f"{name} of {display_name(owner)}"
        if any(name in kind.list_fields for kind in owner.kind.lineage):
            ordered = any(name in kind.ordered_fields for kind in owner.kind.lineage)
            apart = any(name in kind.optional_elements for kind in owner.kind.lineage)
            return self.convert_list(values, what, owner.line, ordered=ordered, apart=apart)
        if len(values.known) != 1 or not values.complete:
            return self._undetermined(owner, name, values, what)
        shown = self.convert(values.known[0], what, owner.line)
        if isinstance(shown, UnknownValue) and not _is_object(values.known[0]):
            return self._undetermined(owner, name, values, what)
        return self._undetermined(owner, name, values, what) if self._must_be_plain(owner, name, shown) else shown

    def _must_be_plain(self, owner: ObjectStub, name: str, shown: object) -> bool:
        """Whether an unknown value is where an extractor expects a plain value."""
        return isinstance(shown, UnknownValue) and (
            name == "name" or any(name in kind.fallbacks for kind in owner.kind.lineage)
        )

    def _undetermined(self, owner: ObjectStub, name: str, values: Values, what: str) -> Any:
        """Converts an attribute that is ambiguous or unknown."""
        self.note(f"line {owner.line}: {what} is not known from the source")
        for kind in owner.kind.lineage:
            if name in kind.fallbacks:
                return kind.fallbacks[name]
        if name == "name":
            variable = owner.variable or owner.interpreter.bound_name(owner.file, owner.line) or f"line {owner.line}"
            return next((plain_string(value) for value in values.known if isinstance(value, str)), variable)
        objects = [value for value in values.known if isinstance(value, ObjectStub)]
        if objects:
            return Alternatives([*objects, *([] if values.complete else [UnknownValue(name)])])
        return self._opaque(values.known[0]) if values.known else UnknownValue(name)

    def note(self, note: str) -> None:
        self.notes[note] = None

    def convert_list(
        self, values: Values, what: str, line: int, *, ordered: bool = False, apart: bool = False
    ) -> list[Any]:
        """Converts the elements of a list, for all its alternatives."""
        lists = [list(self._elements(value, what, line, ordered=ordered)) for value in values.known]
        if not values.complete:
            lists.append([self._unknown_element(what, line)])
        kept = [value for value in values.known if value is not None]
        in_order = all(
            isinstance(collection, list | tuple) or (isinstance(collection, Sequence) and collection.ordered)
            for collection in kept
        )
        if ordered and in_order and values.complete:
            return _one_of(lists) if len(lists) > 1 else [element for several in lists for element in several]
        unique = list({id(element): element for several in lists for element in several}.values())
        if ordered and unique:
            return [Alternatives(unique, repeated=True)]
        if not apart:
            return lists[0] if len(lists) == 1 else unique
        certain = (
            set.intersection(*({id(element) for element in several} for several in lists))
            if in_order and lists
            else set()
        )
        return [element if id(element) in certain else Alternatives([[], [element]]) for element in unique]

    def _elements(self, sequence: object, what: str, line: int, *, ordered: bool) -> Iterator[Any]:
        if sequence is None:
            return
        if isinstance(sequence, list | tuple | set | frozenset):
            sequence = Sequence(tuple(map(exactly, sequence)))
        if not isinstance(sequence, Sequence):
            shown = self._unknown_element(what, line, sequence)
            yield UnknownValue(shown.name) if isinstance(sequence, CallResult) else shown  # a list is not an element
            return
        for item in sequence.items:
            parts = [
                self._unknown_element(what, line)
                if isinstance(each, Sequence | Table)
                else self._named(each, item.label) or self.convert(each, what, line)
                for each in item.known
                if each is not None or item.complete  # what the variable held before, which is not an element
            ]
            if not item.complete:
                parts.append(self.unknown_of(item) if item.label else self._unknown_element(what, line))
            if ordered and sequence.ordered and len(parts) > 1:
                yield Alternatives(parts)
            else:
                yield from parts

    def _named(self, value: object, label: str) -> UnknownValue | None:
        """Returns the result of unknown code by the name of its variable, unless the call names it; None for others."""
        if not (label and isinstance(value, CallResult)) or "name" in value.arguments.keywords or _is_object(value):
            return None
        if id(value) not in self._others:
            self._others[id(value)] = value, UnknownValue(label)
        unknown_value: UnknownValue = self._others[id(value)][1]
        return unknown_value

    def unknown_of(self, values: Values, name: str = "") -> UnknownValue:
        """Returns the same object for the same unknown values, with the name of their variable."""
        if id(values) not in self._others:
            self._others[id(values)] = values, UnknownValue(values.label or name)
        unknown_value: UnknownValue = self._others[id(values)][1]
        return unknown_value

    def _unknown_element(self, what: str, line: int, value: object = None) -> UnknownValue:
        self.note(f"line {line}: not all {what} are known from the source")
        return UnknownValue(what.partition(" ")[0]) if value is None else self._opaque(value)

    def convert(self, value: Any, what: str = "", line: int = 0) -> Any:
        """Converts one value."""
        if isinstance(value, Function | PartialFunction):
            chosen = self.interpreter.renamed.get(id(value))
            if chosen and len(chosen[1].strings or ()) != 1:
                return UnknownValue(getattr(chosen[0].tree, "name", "unknown"), callable_=True)
            return self.function(value)
        if isinstance(value, Sequence):
            return self.convert_list(exactly(value), what, line)
        if isinstance(value, Table):
            return self._table(value, what, line)
        if isinstance(value, Class):
            return self.type_of(value, None)
        if isinstance(value, ProgramObject) and not isinstance(value, ObjectStub):
            return self._object(value)
        if isinstance(value, Stub | CallResult | ImportedName) or type(value).__module__.startswith("guardagent."):
            return value if isinstance(value, _SHOWN) else self._opaque(value)
        return plain_string(value) if isinstance(value, str) else value

    def _table(self, table: Table, what: str, line: int) -> dict[Any, Any]:
        """Converts a dictionary; leaves out unknown keys, with a note."""
        entries: dict[Any, Any] = {}
        for key, values in table.items:
            if len(key.known) != 1 or not key.complete:
                self.note(f"line {line}: {what} is not known from the source")
                continue
            whole = len(values.known) == 1 and values.complete
            shown = self.convert(key.known[0], what, line)
            known = self.convert(values.known[0], what, line) if whole else UnknownValue(str(shown))
            entries[
                shown if isinstance(shown, str | int | ObjectStub | FunctionStub) or shown is None else id(shown)
            ] = known
        return entries

    def _object(self, value: ProgramObject) -> Any:
        """Converts an object of a class of the program: a callable, or an unknown value."""
        methods = self.interpreter.attribute(value, "__call__").known
        if methods and isinstance(methods[0], PartialFunction):
            code = self.function(methods[0])
            code.name = _defined_name(value)
            return code
        return self._opaque(value)

    def _opaque(self, value: object) -> Any:
        function, declared = getattr(value, "function", None), getattr(value, "name", None)
        if isinstance(function, Function | PartialFunction) and isinstance(
            declared, str
        ):  # a tool of another framework
            code = self.function(function)
            code.name = declared
            return code
        if id(value) not in self._others:
            name, path = _defined_name(value), _path_of_class(value)
            shown = UnknownValue(name or "unknown", callable_=isinstance(value, ImportedName), path=path)
            shown.is_named = shown.is_named or isinstance(declared, str)
            self._others[id(value)] = value, shown
        return self._others[id(value)][1]

    def function(self, function: Function | PartialFunction) -> FunctionStub:
        """Converts a function, always to the same stub."""
        key = identity(function)
        if key not in self._functions:
            self._functions[key] = FunctionStub(function, self.interpreter)
        return self._functions[key]

    def type_of(self, made_of: Class, kind: ClassStub | None) -> Any:
        """Returns the Python class for a class of the program, with its methods."""
        if id(made_of.tree) not in self._types:
            self._types[id(made_of.tree)] = self._type(made_of, kind)
        return self._types[id(made_of.tree)]

    def _type(self, made_of: Class, kind: ClassStub | None) -> type:
        bases: list[type] = []
        for base in bases_of(self.interpreter, made_of):
            if isinstance(base, Class) and base.tree is not made_of.tree:
                inner = framework_kind(self.interpreter, base)
                if inner is not None or kind is None:
                    bases.append(self.type_of(base, inner))
            elif (own := kind_of(self.interpreter, base)) is not None:
                bases.append(own.type)
        methods = {
            name: self.function(member) for name in _methods(made_of)
            if isinstance(member := self.interpreter.member(made_of, name), Function | PartialFunction)
        }  # fmt: skip
        space = {**methods, "__module__": "__main__"}
        try:
            return type(made_of.tree.name, tuple(dict.fromkeys(bases)), space)
        except TypeError:  # incompatible bases
            return type(made_of.tree.name, (kind.type,) if kind else (), space)


_SHOWN = (ObjectStub, FunctionStub, LiveValue, UnknownValue)


class Program(Evaluator):
    """Evaluates the names, classes and objects of a program that is never run.

    Attributes:
        file: the program's file.
        modules: the files of the program.
        budget: the steps that are left.
        readers: the readers of the frameworks that the program imports.
        kinds: the class stubs of these frameworks.
        converter: converts objects of the program for extractors.
        executing: statements are executed; if not, only expressions are evaluated.
        depth: the number of enclosing branches; code in a branch may not run.
        rounds: for each loop with an unknown number of rounds, its stubs.
        scopes: the names of the functions that are being executed.
        current_file: the file of the current call.
        current_call: the current call.
        left_aside: the number of statements and calls that were not followed.
        starred: the modules of frameworks in `from module import *`.
        started: the workflows that the program runs, as readers find them.
        objects: all objects of the program.
        graphs: other objects that readers make, whose calls may not all be followed.
        wrapped: the functions that a function wraps with `functools.wraps`, by the identity of its tree.
        renamed: the functions whose `__name__` the program sets, with the values, by identity.
        not_followed: notes on where the budget ended.
    """

    modules: ProgramFiles

    def __init__(self, file: Path) -> None:
        super().__init__(live=False, follow=lambda _function: False)
        self.file = Path(os.path.abspath(file))  # noqa: PTH100 - links stay as they are, as importing the file leaves them
        self.budget = StepBudget()
        self.readers: tuple[ModuleType, ...] = ()
        self.kinds = ClassStubs()
        self.converter = ValueConverter(self)
        self.executing = False
        self.depth = 0
        self.rounds: list[dict[object, ObjectStub]] = []
        self.scopes: list[FlowScope] = []
        self.current_file = self.file
        self.current_call: ast.Call | None = None
        self.left_aside = 0
        self.starred: list[str] = []
        self.started: list[object] = []
        self.objects: list[ProgramObject] = []
        self.graphs: list[UnfinishedGraph] = []
        self.wrapped: dict[int, tuple[object, ...]] = {}
        self.renamed: dict[int, tuple[Function, Values]] = {}
        self.not_followed: dict[str, None] = {}
        self._class_names: dict[int, dict[str, Values]] = {}

    @contextmanager
    def switched(self, *, executing: bool) -> Iterator[None]:
        """Executes statements meanwhile, or only evaluates expressions."""
        before, self.executing = self.executing, executing
        try:
            yield
        finally:
            self.executing = before

    def shown(self, value: object) -> object:
        """Returns a value of the code as an extractor sees it."""
        return self.converter.convert(value)

    def class_shown(self, kind: object) -> object:
        if isinstance(kind, Class):
            return self.converter.type_of(kind, None)
        own = kind_of(self, kind)
        return kind if own is None else own.type

    def bound_name(self, file: str, line: int) -> str:
        trees = [module.tree for module in self.modules if str(module.file) == file]
        return bound_name(trees[0], line) if trees else ""

    def names_of(self, made_of: Class) -> dict[str, Values]:
        """Returns the names of a class that the program changes."""
        return self._class_names.setdefault(id(made_of.tree), {})

    def attribute(self, owner: object, name: str) -> Values:
        if isinstance(owner, ModuleObject):
            return self.modules.attribute(owner.path, name) or UNKNOWN
        if name == "__name__" and isinstance(owner, Function | PartialFunction | Class):
            return self._name_of(owner)
        if isinstance(owner, Class):
            return self._of_class_object(owner, name)
        if name == "__dict__" and isinstance(owner, ProgramObject) and self.executing:
            return exactly(Namespace(owner))
        if not isinstance(owner, ProgramObject):
            return super().attribute(owner, name)
        if self.member(owner.made_of, "__getattribute__") is not None:
            return UNKNOWN
        if name in owner.attributes:
            return owner.attributes[name]
        attribute = self.declared_by_class(owner, name)
        if attribute is None:
            return exactly(Attribute(owner, name)) if isinstance(owner, ObjectStub) else UNKNOWN
        return attribute

    def _of_class_object(self, owner: Class, name: str) -> Values:
        """Evaluates `Class.name`, which can be a method that the class inherits from a framework."""
        values = self._of_class(owner, name)
        only = values.known[0] if len(values.known) == 1 else None
        if isinstance(only, CallResult) and only.callee in (staticmethod, classmethod):
            return self._of_decorated(owner, only)
        kind = None if values.known else framework_kind(self, owner)
        inherited = kind is not None and any(name in each.methods for each in kind.lineage)
        return exactly(Attribute(owner, name)) if inherited else values

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
            return current(held[name], inner=False)
        if not CodeScope(owner.tree, owner.scope).find(name):
            for base in bases_of(self, owner):
                if (
                    isinstance(base, Class)
                    and base.tree is not owner.tree
                    and (values := self._of_class(base, name)).known
                ):
                    return values
        values = super().attribute(owner, name)
        if self.executing and any(isinstance(value, Sequence | Table) for value in values.known):
            self.names_of(owner)[name] = values
        return values

    def declared_by_class(self, owner: ProgramObject, name: str) -> Values | None:
        """Returns the value of an attribute by the class of an object; None if the class does not define it."""
        member = self.member(owner.made_of, name)
        if member is None:
            return None
        if isinstance(member, CallResult):
            return self._of_decorated(owner, member)
        return exactly(
            PartialFunction(member, Arguments((exactly(owner),))) if isinstance(member, Function) else member
        )

    def _of_decorated(self, owner: ProgramObject | Class, call_result: CallResult) -> Values:
        """Evaluates a member that is a property, a static method or the like."""
        how = path_of(call_result.callee).rpartition(".")[2]
        inner = call_result.arguments.values_of("", 0)
        if how in {"property", "cached_property"}:
            results = [self.call(value, Arguments((exactly(owner),))) for value in inner.known]
            return results[0] if len(results) == 1 else UNKNOWN
        if how == "classmethod":
            first = Arguments((exactly(owner if isinstance(owner, Class) else owner.made_of),))
            return Values(tuple(PartialFunction(value, first) for value in inner.known), inner.complete)
        return inner if how == "staticmethod" else exactly(call_result)

    def member(self, made_of: object, name: str) -> object | None:
        """Returns the member of a class or its base classes; None if it is not unique."""
        if not isinstance(made_of, Class):
            return None
        values = self._of_class(made_of, name)
        return values.known[0] if len(values.known) == 1 else None


@dataclass(frozen=True, eq=False)
class ReferenceStub(LiveValue):
    """A stub for a weak reference: a call returns the object."""

    target: object

    def __call__(self) -> object:
        return self.target


def _one_of(lists: list[list[Any]]) -> list[Any]:
    """Returns alternative lists as one: their common beginning and end, with the alternatives between."""
    least = min(map(len, lists))
    alike = [len({id(alternative[place]) for alternative in lists}) == 1 for place in range(least)]
    begin = alike.index(False) if False in alike else least
    rest = [alternative[begin:] for alternative in lists]
    least = min(map(len, rest))
    alike = [len({id(alternative[-1 - place]) for alternative in rest}) == 1 for place in range(least)]
    end = alike.index(False) if False in alike else least
    middle = [alternative[: len(alternative) - end] for alternative in rest]
    between = [Alternatives(middle)] if any(middle) else []
    return [*lists[0][:begin], *between, *(rest[0][len(rest[0]) - end :])]


def display_name(object_stub: ObjectStub) -> str:
    """Returns the name of a stub, for notes."""
    names = [name for name in object_stub.attributes.get("name", NOTHING).known if isinstance(name, str)]
    return plain_string(names[0]) if names else f"the {type(object_stub).__name__}"


def _is_object(value: object) -> bool:
    """Whether a value is an object of a class, by the case of its name."""
    return isinstance(value, CallResult) and _defined_name(value.callee)[:1].isupper()


def _methods(made_of: Class) -> list[str]:
    defined = [node for node in made_of.tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    kept = [node.name for node in defined if not any(_is_property(decorator) for decorator in node.decorator_list)]
    return [name for name in kept if not name.startswith("__") or name == "__call__"]


def _is_property(decorator: object) -> bool:
    return getattr(decorator, "id", getattr(decorator, "attr", "")) in {"property", "cached_property", "computed_field"}


def identity(function: object) -> object:
    """Returns a key that identifies a function, since each access creates a new bound method."""
    if not isinstance(function, PartialFunction):
        return function
    arguments = function.arguments
    bound = [*arguments.positional, *arguments.keywords.values()]
    return identity(function.function), tuple(id(value) for values in bound for value in values.known)


def _path_of_class(value: object) -> str:
    """Returns the path of the imported class of an object; empty if there is none."""
    path = path_of(value.callee) if isinstance(value, CallResult) else ""
    return path if path.rpartition(".")[2][:1].isupper() else ""


def _defined_name(value: object) -> str:
    """Returns the name of an imported definition, or of the class of an object."""
    if isinstance(value, CallResult):
        named_ = value.arguments.values_of("name").strings
        return next(iter(named_)) if named_ else _defined_name(value.callee)
    if isinstance(value, ProgramObject) and isinstance(value.made_of, Class):
        return value.made_of.tree.name
    name = getattr(value, "name", "")
    return path_of(value).rpartition(".")[2] or (name if isinstance(name, str) else "")
