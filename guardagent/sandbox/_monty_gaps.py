"""What Python the pinned Monty lacks or does otherwise, found in a program's syntax tree before it runs.

Everything here was tried on that release, and tests try it again: a new release of Monty starts with this list.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

MODULES = frozenset(
    "base64 bisect collections copy csv dataclasses datetime decimal functools hashlib itertools json math random re "
    "time typing unicodedata __future__".split()
)
"""What can be imported."""

NAMES = {
    "base64": "encode decode",
    "collections": "ChainMap OrderedDict UserDict UserList UserString abc",
    "dataclasses": "asdict astuple fields replace InitVar KW_ONLY FrozenInstanceError",
    "datetime": "tzinfo MINYEAR MAXYEAR UTC",
    "functools": "wraps cmp_to_key total_ordering cached_property",
    "json": "JSONDecoder",
    "re": "subn X VERBOSE U UNICODE",
    "typing": "Collection Counter DefaultDict Deque Hashable MutableMapping NamedTuple NewType OrderedDict Sized "
    "SupportsFloat SupportsInt Text TypedDict TypeAlias cast final overload runtime_checkable Required NotRequired "
    "Pattern Match MutableSequence MutableSet",
    "unicodedata": "UCD bidirectional decimal decomposition digit east_asian_width mirrored numeric ucd_3_2_0",
}
"""What these modules do not have."""

BUILTINS = frozenset(
    "callable issubclass delattr ascii staticmethod classmethod super bytearray next object BufferError BytesWarning "
    "DeprecationWarning EOFError EnvironmentError FloatingPointError FutureWarning GeneratorExit IOError ImportWarning "
    "IndentationError PendingDeprecationWarning ReferenceError RuntimeWarning SyntaxWarning SystemError TabError "
    "UnicodeError UnicodeTranslateError UnicodeWarning UserWarning Warning StopAsyncIteration".split()
)
"""What is not built in; `next` is, but zip, map, filter and the like give lists, which it does not take."""

METHODS = frozenset("__init__ __post_init__ __repr__ __str__ __eq__ __hash__ __enter__ __exit__".split())
"""Special methods that are called; any other is silently not."""

ATTRIBUTES = frozenset({"translate", "maketrans", "raw_decode", "subn", "colno", "msg"})
_OPTIONS = frozenset({"frozen", "eq", "repr", "init"})  # of @dataclass


def gap(tree: ast.Module) -> str:
    """The first thing in a program that Monty cannot run, with its line; empty where it can run all of it."""
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    aliases = {alias.asname or alias.name: alias.name for alias in _imports(tree)}
    typing = {alias.asname or alias.name for alias in _imports(tree, "typing")}
    bound = functions | aliases.keys()
    for node in ast.walk(tree):
        what = _syntax(node) or _library(node, aliases) or _call(node, functions) or _value(node, typing)
        if not what and isinstance(node, ast.Name) and node.id in BUILTINS - bound:
            what = f"{node.id!r} is"
        if what:
            return f"line {getattr(node, 'lineno', 1)}: {what} not supported by the engine 'monty'"
    return ""


def _imports(tree: ast.Module, module: str | None = None) -> Iterator[ast.alias]:
    """What is imported: names from a module, or whole modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom if module else ast.Import) and (
            module is None or getattr(node, "module", None) == module
        ):
            yield from node.names


def _syntax(node: ast.AST) -> str:
    match node:
        case ast.ClassDef(bases=[ast.Name(id="object")], decorator_list=[]):
            return ""
        case ast.ClassDef() if node.bases:
            return "inheritance is"
        case ast.ClassDef() if any(isinstance(item, ast.FunctionDef) and item.decorator_list for item in node.body):
            return "decorators of methods are"
        case ast.FunctionDef() if node.name.startswith("__") and node.name not in METHODS:
            return f"the method {node.name} is"
        case ast.Yield() | ast.YieldFrom():
            return "generators are"
        case ast.Delete():
            return "`del` is"
    return ""


def _library(node: ast.AST, aliases: dict[str, str]) -> str:
    match node:
        case ast.Import() if missing := [alias.name for alias in node.names if alias.name not in MODULES]:
            return f"the module {missing[0]!r} is"
        case ast.ImportFrom() if node.module not in MODULES:
            return f"the module {node.module!r} is"
        case ast.ImportFrom() if missing := [name.name for name in node.names if _lacks(node.module, name.name)]:
            return f"{node.module}.{missing[0]} is"
        case ast.Attribute(value=ast.Name()) if _lacks(aliases.get(node.value.id), node.attr):
            return f"{aliases[node.value.id]}.{node.attr} is"
        case ast.Attribute() if node.attr in ATTRIBUTES:
            return f"the attribute {node.attr!r} is"
        case ast.Attribute(attr="__name__" | "__doc__", value=value) if not isinstance(value, ast.Call):
            return f"{node.attr} of anything but type(x) is"
    return ""


def _lacks(module: str | None, name: str) -> bool:
    return name in NAMES.get(module or "", "").split()


def _call(node: ast.AST, functions: set[str]) -> str:
    match node:
        case ast.Call(func=ast.Attribute(attr="sub")) if any(_is_function(item, functions) for item in node.args):
            return "a function as replacement is"
        case ast.Call(func=ast.Name(id="dataclass") | ast.Attribute(attr="dataclass")):
            missing = [str(keyword.arg) for keyword in node.keywords if keyword.arg not in _OPTIONS]
            return f"the dataclass option {missing[0]!r} is" if missing else ""
    return ""


def _is_function(node: ast.expr, functions: set[str]) -> bool:
    return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in functions)


def _value(node: ast.AST, typing: set[str]) -> str:
    """A type as a value; in an annotation it is not evaluated."""
    match node:
        case ast.Assign(value=ast.Subscript(value=ast.Name(id=name))) if name in typing:
            return f"{name}[…] as a value is"
    return ""
