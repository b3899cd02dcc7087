"""The Python features that the pinned Monty lacks or changes, found in a program's syntax tree before it runs.

Everything here was tried on that release, and tests try it again: update this list first for a new release of Monty.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

MODULES = frozenset(
    "base64 bisect collections copy csv dataclasses datetime decimal functools hashlib itertools json math random re "
    "time typing unicodedata __future__".split()
)
"""Modules that can be imported."""

NAMES = {
    "base64": "encode decode",
    "collections": "ChainMap OrderedDict UserDict UserList UserString abc",
    "dataclasses": "asdict astuple fields replace InitVar KW_ONLY",
    "datetime": "tzinfo MINYEAR MAXYEAR UTC",
    "functools": "wraps cmp_to_key total_ordering cached_property",
    "json": "JSONDecoder",
    "re": "subn X VERBOSE U UNICODE",
    "typing": "Collection Counter DefaultDict Deque Hashable MutableMapping NamedTuple NewType OrderedDict Sized "
    "SupportsFloat SupportsInt Text TypedDict TypeAlias cast final overload runtime_checkable Required NotRequired "
    "Pattern Match MutableSequence MutableSet",
    "unicodedata": "UCD bidirectional decimal decomposition digit east_asian_width mirrored numeric ucd_3_2_0",
}
"""Names that these modules lack."""

BUILTINS = frozenset(
    "callable issubclass delattr ascii staticmethod classmethod super bytearray next object BufferError BytesWarning "
    "DeprecationWarning EOFError EnvironmentError FloatingPointError FutureWarning GeneratorExit IOError ImportWarning "
    "IndentationError PendingDeprecationWarning ReferenceError RuntimeWarning SyntaxWarning SystemError TabError "
    "UnicodeError UnicodeTranslateError UnicodeWarning UserWarning Warning StopAsyncIteration".split()
)
"""Missing built-in names; `next` exists, but rejects the lists that zip, map, filter and the like return."""

METHODS = frozenset("__init__ __post_init__ __repr__ __str__ __eq__ __hash__ __enter__ __exit__".split())
"""Special methods that are called; any other is silently ignored."""

ATTRIBUTES = frozenset({"translate", "maketrans", "raw_decode", "subn", "colno", "msg"})
_OPTIONS = frozenset({"frozen", "eq", "repr", "init"})  # of @dataclass


def first_gap(tree: ast.Module) -> str:
    """Returns the first feature in a program that Monty lacks, with its line; empty if it can run all of it."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, _CHECKED_NODES)]
    names = _Names(nodes)
    for node in nodes:
        if what := _CHECKS[type(node)](node, names):
            return f"line {getattr(node, 'lineno', 1)}: {what} not supported by the engine 'monty'"
    return ""


class _Names:
    """The functions, modules and types that the names of a program refer to."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        imports = [node for node in nodes if isinstance(node, ast.Import)]
        self.modules = {alias.asname or alias.name: alias.name for node in imports for alias in node.names}
        froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "typing"]
        self.types = {alias.asname or alias.name for node in froms for alias in node.names}


def _class(node: ast.ClassDef, names: _Names) -> str:
    if any(not (isinstance(base, ast.Name) and base.id == "object") for base in node.bases):
        return "inheritance is"
    if any(isinstance(item, ast.FunctionDef) and item.decorator_list for item in node.body):
        return "decorators of methods are"
    return ""


def _function(node: ast.FunctionDef, names: _Names) -> str:
    return f"the method {node.name!r} is" if node.name.startswith("__") and node.name not in METHODS else ""


def _generator(node: ast.AST, names: _Names) -> str:
    return "generators are"


def _delete(node: ast.Delete, names: _Names) -> str:
    return "'del' is"


def _import(node: ast.Import, names: _Names) -> str:
    missing = [alias.name for alias in node.names if alias.name not in MODULES]
    return f"the module {missing[0]!r} is" if missing else ""


def _import_from(node: ast.ImportFrom, names: _Names) -> str:
    if node.module not in MODULES:
        return f"the module {node.module!r} is"
    missing = [alias.name for alias in node.names if _lacks(node.module, alias.name)]
    return f"'{node.module}.{missing[0]}' is" if missing else ""


def _attribute(node: ast.Attribute, names: _Names) -> str:
    module = names.modules.get(node.value.id) if isinstance(node.value, ast.Name) else None
    if _lacks(module, node.attr):
        return f"'{module}.{node.attr}' is"
    if node.attr in ("__name__", "__doc__") and not isinstance(node.value, ast.Call):
        return f"{node.attr!r} of anything but 'type(x)' is"
    return f"the attribute {node.attr!r} is" if node.attr in ATTRIBUTES else ""


def _lacks(module: str | None, name: str) -> bool:
    return module in NAMES and name in NAMES[module].split()


def _name(node: ast.Name, names: _Names) -> str:
    return f"{node.id!r} is" if node.id in BUILTINS and node.id not in names.functions else ""


def _call(node: ast.Call, names: _Names) -> str:
    match node.func:
        case ast.Attribute(attr="sub") if any(_is_function(item, names.functions) for item in node.args):
            return "a function as replacement is"
        case ast.Name(id="dataclass") | ast.Attribute(attr="dataclass"):
            missing = [str(keyword.arg) for keyword in node.keywords if keyword.arg not in _OPTIONS]
            return f"the dataclass option {missing[0]!r} is" if missing else ""
    return ""


def _assign(node: ast.Assign, names: _Names) -> str:
    """Returns a type that is used as a value; an annotation is not evaluated."""
    match node.value:
        case ast.Subscript(value=ast.Name(id=name)) if name in names.types:
            return f"'{name}[…]' as a value is"
    return ""


def _is_function(node: ast.expr, functions: set[str]) -> bool:
    return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in functions)


_CHECKS: dict[type[ast.AST], Callable[[Any, _Names], str]] = {
    ast.ClassDef: _class,
    ast.FunctionDef: _function,
    ast.Yield: _generator,
    ast.YieldFrom: _generator,
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
    ast.Attribute: _attribute,
    ast.Name: _name,
    ast.Call: _call,
    ast.Assign: _assign,
}
_CHECKED_NODES = tuple(_CHECKS)
