"""Evaluates calls of well-known functions and methods, and the attributes of objects.

These functions return their arguments or parts of them. Attributes are looked up without running properties or
`__getattr__`.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
from collections.abc import Callable
from enum import Enum, EnumType
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from guardagent.workflow.python_source import types
from guardagent.workflow.python_source.scopes import CodeScope
from guardagent.workflow.python_source.types import EvaluatorProtocol
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
    Instance,
    PartialFunction,
    Sequence,
    Stub,
    Table,
    Values,
    exactly,
    path_of,
    plain_string,
    small,
)

_PARTS = {"split", "rsplit", "partition", "rpartition", "replace", "removeprefix", "removesuffix"}
_STRING_METHODS = {"lower", "upper", "strip", "lstrip", "rstrip", "title", "capitalize", "casefold"}
_SAME = {"builtins.list", "builtins.tuple", "builtins.iter", "copy.copy", "copy.deepcopy"}
_MIXED = {"builtins.set", "builtins.frozenset", "builtins.sorted", "builtins.reversed"}
_ONE_OF = {"builtins.min", "builtins.max"}
_CASTS = {"typing.cast", "typing_extensions.cast"}
_AWAITS = {f"asyncio.{name}" for name in ("run", "create_task", "ensure_future", "wait_for", "shield")}
_BOOLEAN = {f"builtins.{name}" for name in ("bool", "isinstance", "issubclass", "any", "all", "hasattr", "callable")}
_PLAIN = {str, int, float, bool, dict}
_MODEL_RUNS = {"invoke", "ainvoke"}
BINDS = {"bind_tools", "bind", "with_structured_output", "with_config", "with_retry", "with_fallbacks", "with_types"}
"""Methods that return the same model or runnable, with a change."""


def result(evaluator: EvaluatorProtocol, target: object, arguments: Arguments) -> Values | None:
    """Returns the value of a call; None if the function is not well known."""
    if isinstance(target, Attribute):
        return _method(evaluator, target, arguments)
    path = path_of(target)
    first = arguments.get("", 0)
    if path == "builtins.isinstance" and (known := _is_instance(arguments)) is not None:
        return exactly(known)
    if path == "builtins.len":
        return _length(evaluator, first)
    if path in _BOOLEAN:
        return Values((True, False))
    if path in {"functools.partial", "functools.partialmethod"}:
        return _partial(arguments)
    if path.startswith("random.") and path.endswith(".choice") and arguments.positional:
        return evaluator.elements(arguments.positional[-1])  # the first argument is the generator
    function: Callable[[EvaluatorProtocol, Arguments, Values], Values] | None = _functions().get(path)
    if function is None:
        return None
    if function is _field_default:
        return _field_default(evaluator, arguments, UNKNOWN)
    if path == "builtins.dict" and arguments.keywords:
        first = first or exactly(Table(()))
    return function(evaluator, arguments, first) if first is not None else _empty(path)


def _length(evaluator: EvaluatorProtocol, values: Values | None) -> Values | None:
    """Returns the number of elements of a list whose elements are known."""
    if values is None or values.cyclic or not all(isinstance(value, Sequence | list | tuple) for value in values.known):
        return None
    items = evaluator.ordered_elements(values)
    return small(len(items)) if items is not None else None


def _is_generator(owner: object) -> bool:
    """Whether a value is a generator of random numbers that the program makes."""
    return isinstance(owner, CallResult) and path_of(owner.callee) in {"random.Random", "random.SystemRandom"}


def _is_instance(arguments: Arguments) -> bool | None:
    """Whether a literal is an instance of a type; None if that is unknown."""
    first, kinds = (arguments.values_of("", place) for place in range(2))
    if not all(argument.complete and len(argument.known) == 1 and not argument.cyclic for argument in (first, kinds)):
        return None
    value, kind = first.known[0], kinds.known[0]
    if isinstance(kind, Class) and type(value) in _PLAIN:
        return False
    own = dict if isinstance(value, Table) else object if isinstance(value, Function | PartialFunction) else type(value)
    return issubclass(own, kind) if own in _PLAIN | {object} and kind in _PLAIN else None


@functools.cache
def _functions() -> dict[str, Callable[[EvaluatorProtocol, Arguments, Values], Values]]:
    table: dict[str, Callable[[EvaluatorProtocol, Arguments, Values], Values]] = dict.fromkeys(_SAME, _same)
    table |= dict.fromkeys(_MIXED, _mixed)
    table |= dict.fromkeys(_ONE_OF, _one_of) | dict.fromkeys(_CASTS, _cast) | dict.fromkeys(_AWAITS, _awaited)
    return table | {
        "asyncio.gather": _gathered,
        "builtins.next": _next,
        "builtins.reversed": _reversed,
        "builtins.sorted": _sorted,
        "builtins.str": _as_string,
        "builtins.dict": _as_table,
        "builtins.getattr": _getattr,
        "builtins.enumerate": _enumerate,
        "builtins.zip": _zip,
        "itertools.pairwise": _pairwise,
        "builtins.map": _map,
        "builtins.filter": _filter,
        "builtins.range": _range,
        "itertools.chain": _chain,
        "pydantic.Field": _field_default,
        "dataclasses.field": _field_default,
    }


def _empty(path: str) -> Values | None:
    if path in _SAME | _MIXED:
        return exactly(Sequence(()))
    return exactly(Table(())) if path == "builtins.dict" else UNKNOWN


def _same(evaluator: EvaluatorProtocol, _arguments: Arguments, first: Values) -> Values:
    ordered = evaluator.ordered_elements(first)
    if ordered is not None and not first.cyclic:
        return exactly(Sequence(tuple(ordered)))
    return _mixed(evaluator, _arguments, first)


def _mixed(evaluator: EvaluatorProtocol, _arguments: Arguments, first: Values) -> Values:
    """Returns the same elements in any order."""
    items = evaluator.elements(first)
    return Values((Sequence((items,), ordered=False),), cyclic=items.cyclic)


def _sorted(evaluator: EvaluatorProtocol, arguments: Arguments, first: Values) -> Values:
    """Returns known strings in their order; other elements in any order."""
    ordered = None if first.cyclic or arguments.keywords else evaluator.ordered_elements(first)
    known = [item.known[0] for item in ordered or () if len(item.known) == 1 and item.complete]
    strings = [value for value in known if type(value) is str]
    if ordered is None or len(strings) < len(ordered):
        return _mixed(evaluator, arguments, first)
    return exactly(Sequence(tuple(map(exactly, sorted(strings)))))


def _reversed(evaluator: EvaluatorProtocol, arguments: Arguments, first: Values) -> Values:
    ordered = None if first.cyclic else evaluator.ordered_elements(first)
    return _mixed(evaluator, arguments, first) if ordered is None else exactly(Sequence(tuple(reversed(ordered))))


def _one_of(evaluator: EvaluatorProtocol, arguments: Arguments, first: Values) -> Values:
    if len(arguments.positional) == 1:
        return evaluator.elements(first) | (arguments.get("default") or NOTHING)
    result = arguments.get("default") or NOTHING
    for argument in arguments.positional:
        result |= argument
    return result


def _next(evaluator: EvaluatorProtocol, arguments: Arguments, first: Values) -> Values:
    return evaluator.elements(first) | (arguments.get("default", 1) or NOTHING)


def _cast(_evaluator: EvaluatorProtocol, arguments: Arguments, _first: Values) -> Values:
    return arguments.values_of("val", 1)


def _awaited(_evaluator: EvaluatorProtocol, _arguments: Arguments, first: Values) -> Values:
    """Returns the result of a coroutine, which stands for it."""
    return first


def _gathered(_evaluator: EvaluatorProtocol, arguments: Arguments, _first: Values) -> Values:
    ordered = not arguments.open and REST not in arguments.keywords
    more = () if ordered else (arguments.keywords.get(REST, UNKNOWN),)
    return exactly(Sequence((*arguments.positional, *more), ordered))


def _as_string(evaluator: EvaluatorProtocol, _arguments: Arguments, first: Values) -> Values:
    return evaluator.strings([first])


def _as_table(evaluator: EvaluatorProtocol, arguments: Arguments, first: Values) -> Values:
    pairs = [_pairs(evaluator, value) for value in first.known]
    if not first.complete or None in pairs or arguments.open:
        return UNKNOWN
    named = [(exactly(name), keyword) for name, keyword in arguments.keywords.items()]
    return exactly(Table((*(pair for some in pairs for pair in some or ()), *named)))


def _pairs(evaluator: EvaluatorProtocol, value: object) -> list[tuple[Values, Values]] | None:
    """Returns the keys and values of a dictionary, or of a list of pairs."""
    if not isinstance(value, list | tuple | Sequence):
        return evaluator.pairs(value)
    items = evaluator.ordered_elements(exactly(value))
    both = [evaluator.ordered_elements(item) for item in items] if items is not None else [None]
    if any(pair is None or len(pair) != 2 for pair in both):
        return None
    return [(pair[0], pair[1]) for pair in both if pair is not None]


def _getattr(evaluator: EvaluatorProtocol, arguments: Arguments, first: Values) -> Values:
    names = arguments.values_of("", 1).strings
    if not names or not first.complete:
        return UNKNOWN
    values = arguments.get("", 2) or NOTHING
    for owner, name in itertools.product(first.known, names):
        values |= evaluator.attribute(owner, name)
    return values


def _enumerate(evaluator: EvaluatorProtocol, arguments: Arguments, first: Values) -> Values:
    ordered = evaluator.ordered_elements(first)
    if ordered is not None and len(arguments.positional) == 1 and not arguments.keywords:
        pairs = (Sequence((exactly(place), element)) for place, element in enumerate(ordered))
        return exactly(Sequence(tuple(map(exactly, pairs))))
    return _each(Sequence((UNKNOWN, evaluator.elements(first))))


def _range(_evaluator: EvaluatorProtocol, arguments: Arguments, _first: Values) -> Values:
    numbers = [argument.known[0] for argument in arguments.positional if argument.complete and len(argument.known) == 1]
    if (
        len(numbers) != len(arguments.positional)
        or not all(type(number) is int for number in numbers)
        or 0 in numbers[2:]
    ):
        return exactly(Sequence((UNKNOWN,), ordered=False))
    return exactly(range(*numbers))


def _zip(evaluator: EvaluatorProtocol, arguments: Arguments, _first: Values) -> Values:
    several = [evaluator.ordered_elements(argument) for argument in arguments.positional]
    if None not in several and not arguments.open:
        rows = zip(*(column or () for column in several), strict=False)
        return exactly(Sequence(tuple(exactly(Sequence(row)) for row in rows)))
    return _each(Sequence(tuple(evaluator.elements(argument) for argument in arguments.positional)))


def _pairwise(evaluator: EvaluatorProtocol, _arguments: Arguments, first: Values) -> Values:
    items = evaluator.ordered_elements(first)
    if items is None or first.cyclic:
        return _each(Sequence((evaluator.elements(first),) * 2))
    return exactly(Sequence(tuple(exactly(Sequence(pair)) for pair in itertools.pairwise(items))))


def _map(evaluator: EvaluatorProtocol, arguments: Arguments, first: Values) -> Values:
    several = [evaluator.ordered_elements(argument) for argument in arguments.positional[1:]]
    if None not in several and len(first.known) == 1 and first.complete and not arguments.open:
        rows = zip(*(column or () for column in several), strict=False)
        return exactly(Sequence(tuple(evaluator.call(first.known[0], Arguments(row)) for row in rows)))
    items = Arguments(tuple(evaluator.elements(argument) for argument in arguments.positional[1:]))
    values = NOTHING if first.complete else UNKNOWN
    for value in first.known:
        values |= evaluator.call(value, items)
    return exactly(Sequence((values,), ordered=False))


def _filter(evaluator: EvaluatorProtocol, arguments: Arguments, _first: Values) -> Values:
    return exactly(Sequence((evaluator.elements(arguments.values_of("", 1)),), ordered=False))


def _chain(evaluator: EvaluatorProtocol, arguments: Arguments, _first: Values) -> Values:
    values = NOTHING
    for argument in arguments.positional:
        values |= evaluator.elements(argument)
    return exactly(Sequence((values,), ordered=False))


def _field_default(evaluator: EvaluatorProtocol, arguments: Arguments, _first: Values) -> Values:
    """Returns the default of a field of a model; unknown if it has none."""
    factory = arguments.values_of("default_factory").known
    if len(factory) == 1:
        return evaluator.call(factory[0], Arguments())
    default = arguments.get("default", 0)
    return UNKNOWN if default is None or default.known == (...,) else default


def _each(sequence: Sequence) -> Values:
    return exactly(Sequence((exactly(sequence),), ordered=False))


def _partial(arguments: Arguments) -> Values:
    if not arguments.positional:
        return UNKNOWN
    function, rest = arguments.positional[0], Arguments(arguments.positional[1:], arguments.keywords, arguments.open)
    return Values(tuple(PartialFunction(value, rest) for value in function.known), function.complete)


def _method(evaluator: EvaluatorProtocol, target: Attribute, arguments: Arguments) -> Values | None:
    owner, name = target.owner, target.name
    if isinstance(owner, str):
        return _string_method(evaluator, owner, name, arguments)
    if name == "choice" and _is_generator(owner) and arguments.positional:
        return evaluator.elements(arguments.positional[0])
    if isinstance(owner, CallResult):
        return _result_method(owner, name, arguments)
    pairs = evaluator.pairs(owner)
    if name in {"get", "pop", "setdefault"} and (pairs is not None or isinstance(owner, Instance)):
        default = arguments.get("default", 1)
        return evaluator.item(owner, arguments.values_of("key", 0)) | (default or exactly(None))
    if pairs is None:
        return None
    ordered = all(key.strings is not None and len(key.strings) == 1 for key, _ in pairs)
    if name == "values":
        return exactly(Sequence(tuple(value for _, value in pairs), ordered))
    if name == "keys":
        return exactly(Sequence(tuple(key for key, _ in pairs), ordered))
    if name == "items":
        return exactly(Sequence(tuple(exactly(Sequence(pair)) for pair in pairs), ordered))
    return exactly(owner) if name == "copy" else None


def _string_method(evaluator: EvaluatorProtocol, owner: str, name: str, arguments: Arguments) -> Values:
    if name in _STRING_METHODS and not arguments.positional:
        return exactly(getattr(plain_string(owner), name)())
    if name in _PARTS and not arguments.open and not arguments.keywords:
        return _parts(owner, name, arguments)
    if name in {"startswith", "endswith", "isdigit", "isalpha"}:
        return Values((True, False))
    if name == "format" and not arguments.open:
        return _formatted(evaluator, owner, arguments)
    return UNKNOWN


def _parts(owner: str, name: str, arguments: Arguments) -> Values:
    """Returns the parts of a string, if the arguments are known."""
    plain = [argument.known[0] for argument in arguments.positional if argument.complete and len(argument.known) == 1]
    if len(plain) < len(arguments.positional) or not all(isinstance(value, str | int) for value in plain):
        return UNKNOWN
    try:
        parts = getattr(plain_string(owner), name)(*plain)
    except (TypeError, ValueError):
        return UNKNOWN
    return exactly(parts if isinstance(parts, str) else Sequence(tuple(map(exactly, parts))))


def _formatted(evaluator: EvaluatorProtocol, owner: str, arguments: Arguments) -> Values:
    """Evaluates `"{}_node".format(x)`, if each argument has one value."""
    passed = [*arguments.positional, *arguments.keywords.values()]
    if any(evaluator.strings([argument]) == UNKNOWN or len(argument.known) != 1 for argument in passed):
        return UNKNOWN
    try:
        named = {name: keyword.known[0] for name, keyword in arguments.keywords.items()}
        return exactly(plain_string(owner).format(*(argument.known[0] for argument in arguments.positional), **named))
    except (IndexError, KeyError, ValueError, AttributeError):
        return UNKNOWN


def _result_method(owner: CallResult, name: str, arguments: Arguments) -> Values | None:
    """Evaluates `model.with_structured_output(Answer).invoke(...)` to an instance of `Answer`."""
    maker = owner.callee
    if name == "run_until_complete" and path_of(maker).startswith("asyncio."):
        return arguments.get("future", 0)
    if name in _MODEL_RUNS and isinstance(maker, Attribute) and maker.name == "with_structured_output":
        schema = owner.arguments.values_of("schema", 0)
        wanted = tuple(Instance(value) for value in schema.known if isinstance(value, type | Class))
        return Values(wanted, schema.complete) if wanted else UNKNOWN
    return UNKNOWN if not isinstance(maker, type | Class | ImportedName) and name not in BINDS else None


# --- attributes

_MISSING: Any = object()
_STAND_INS = (Stub, CallResult, Sequence, Table, PartialFunction, Attribute, Function)


def look_up(evaluator: EvaluatorProtocol, owner: object, name: str) -> Values:
    """Returns the possible values of an attribute of one value."""
    if isinstance(owner, ImportedName):
        return evaluator.resolved_import(f"{owner.path}.{name}")
    if isinstance(owner, Stub) and (known := owner.attribute(name)) is not None:
        return known
    if isinstance(owner, Instance):
        return _of_instance(evaluator, owner, name)
    if isinstance(owner, Class):
        return _of_class(evaluator, owner, name)
    if isinstance(owner, CallResult) and isinstance(owner.callee, Class):
        return _of_result(evaluator, owner, owner.callee, name)
    if isinstance(owner, CallResult) and isinstance(owner.callee, type) and not is_library(owner.callee):
        return _of_live_result(evaluator, owner, owner.callee, name)
    if isinstance(owner, str) and name == "value" and not isinstance(owner, Enum):  # a member of an enumeration in code
        return exactly(owner)
    if isinstance(owner, _STAND_INS) or (
        isinstance(owner, str | list | tuple | set | dict) and not isinstance(owner, Enum)
    ):
        return exactly(Attribute(owner, name))
    return _of_live(evaluator, owner, name)


def call_method(target: object) -> MethodType | None:
    """Returns the `__call__` method of a live object, if its class defines one in Python."""
    method = inspect.getattr_static(type(target), "__call__", None)
    return MethodType(method, target) if isinstance(method, FunctionType) else None


def wrapped_by(target: object) -> object | None:
    """Returns the `__wrapped__` function of a live object, as `functools.wraps` and `functools.cache` set it."""
    return _instance_dict(target).get("__wrapped__")


def _of_live(evaluator: EvaluatorProtocol, owner: object, name: str) -> Values:
    if isinstance(owner, ModuleType):
        return exactly(vars(owner)[name]) if name in vars(owner) else UNKNOWN
    if isinstance(owner, EnumType) and name in owner.__members__:
        return exactly(owner.__members__[name])
    if isinstance(owner, Enum) and name in {"value", "name"}:
        return exactly(owner.value if name == "value" else owner.name)
    for spelling in (name, *_mangled(owner, name)):
        attribute = inspect.getattr_static(owner, spelling, _MISSING)
        if attribute is not _MISSING:
            return _unwrapped(evaluator, owner, spelling, attribute)
    return UNKNOWN


def _mangled(owner: object, name: str) -> list[str]:
    """Returns the mangled forms of a private name such as `__graph`, for each class of an object."""
    if not name.startswith("__") or name.endswith("__"):
        return []
    kinds = type.mro(owner) if isinstance(owner, type) else type(owner).__mro__
    return [f"_{kind.__name__.lstrip('_')}{name}" for kind in kinds]


def _unwrapped(evaluator: EvaluatorProtocol, owner: object, name: str, attribute: object) -> Values:
    """Returns the value of an attribute that was found on an object or its class."""
    if isinstance(attribute, staticmethod):
        return exactly(attribute.__func__)
    if isinstance(attribute, classmethod):
        return exactly(
            PartialFunction(attribute.__func__, _bound_to(owner if isinstance(owner, type) else type(owner)))
        )
    if isinstance(attribute, property | functools.cached_property):
        getter = attribute.fget if isinstance(attribute, property) else attribute.func
        return evaluator.call(getter, _bound_to(owner)) if getter is not None else UNKNOWN
    if isinstance(attribute, FunctionType) and not isinstance(owner, type) and name not in _instance_dict(owner):
        return exactly(PartialFunction(attribute, _bound_to(owner)))
    if isinstance(attribute, MemberDescriptorType):
        return exactly(attribute.__get__(owner)) if not isinstance(owner, type) else UNKNOWN
    return UNKNOWN if isinstance(attribute, GetSetDescriptorType) else exactly(attribute)


def _instance_dict(owner: object) -> dict[str, object]:
    """Returns the `__dict__` of an object, without its `__getattribute__`."""
    try:
        own = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return {}
    return own if isinstance(own, dict) else {}


def _bound_to(owner: object) -> Arguments:
    return Arguments((exactly(owner),))


def _of_instance(evaluator: EvaluatorProtocol, owner: Instance, name: str) -> Values:
    declared_value = types.field_value(evaluator, owner.of, name)
    if declared_value.known or not isinstance(owner.of, type | Class):
        return declared_value
    if name in {"get", "pop", "setdefault"}:
        return exactly(Attribute(owner, name))
    attribute = inspect.getattr_static(owner.of, name, _MISSING) if isinstance(owner.of, type) else _MISSING
    if isinstance(attribute, FunctionType):
        return exactly(PartialFunction(attribute, Arguments((exactly(owner),))))
    if isinstance(attribute, property) and attribute.fget is not None:
        return evaluator.call(attribute.fget, Arguments((exactly(owner),)))
    if not isinstance(owner.of, Class):
        return UNKNOWN
    values = _of_class(evaluator, owner.of, name)
    is_method = values.known and all(isinstance(value, Function | PartialFunction) for value in values.known)
    return values if is_method else Values(values.known, complete=False)  # of a field, the class has only the default


def _of_class(evaluator: EvaluatorProtocol, owner: Class, name: str) -> Values:
    """Looks up an attribute of a class in code, then of its base classes."""
    scope = CodeScope(owner.tree, owner.scope)
    if scope.find(name):
        values = evaluator.name(name, scope)
        if any(path_of(getattr(value, "callee", None)) == "enum.auto" for value in values.known):
            return exactly(name.lower()) if "StrEnum" in types.bases_of(owner) else UNKNOWN
        return exactly(*values.known) if types.is_enumeration(owner) and values.complete else values
    for base in owner.tree.bases:
        for parent in evaluator.value(base, owner.scope).known:
            if isinstance(parent, Class) and (values := _of_class(evaluator, parent, name)).known:
                return values
    return UNKNOWN


def _of_result(evaluator: EvaluatorProtocol, owner: CallResult, maker: Class, name: str) -> Values:
    """Looks up an attribute of an object of a class in code: a method, or a value that its constructor assigns."""
    values = _of_class(evaluator, maker, name)
    if values.known:
        return Values(tuple(_bound_method(owner, value) for value in values.known), values.complete)
    if types.is_enumeration(maker):
        return UNKNOWN
    return types.constructor_attribute(evaluator, owner, maker, name) or exactly(Attribute(owner, name))


def _of_live_result(evaluator: EvaluatorProtocol, owner: CallResult, maker: type, name: str) -> Values:
    """Looks up an attribute of an object of a live class of the program."""
    attribute = inspect.getattr_static(maker, name, _MISSING)
    if isinstance(attribute, FunctionType):
        return exactly(PartialFunction(attribute, _bound_to(owner)))
    if isinstance(attribute, property):
        return evaluator.call(attribute.fget, _bound_to(owner)) if attribute.fget is not None else UNKNOWN
    constructed = types.constructed_attribute(evaluator, owner, maker, name)
    if constructed is not None:
        return constructed
    return exactly(Attribute(owner, name)) if attribute is _MISSING else _of_live(evaluator, maker, name)


def is_library(kind: type) -> bool:
    """Whether a class is from the standard library, whose objects are not read."""
    return kind.__module__.partition(".")[0] in sys.stdlib_module_names


def _bound_method(owner: CallResult, attribute: object) -> object:
    return PartialFunction(attribute, Arguments((exactly(owner),))) if isinstance(attribute, Function) else attribute
