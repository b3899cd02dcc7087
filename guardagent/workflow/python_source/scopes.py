"""Scopes, which look up names: the code of a function or a file, and the live names around it.

The syntax tree of a live function is that of its own code, not of a function that it wraps.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType, FunctionType

from guardagent.workflow.python_source import values
from guardagent.workflow.python_source.values import NOTHING, Binding, FunctionTree, NameScope, Values, exactly

EACH = "each"
"""A step into a value: any of its elements. A number is the element at that index."""

ADDED = "added"
"""A step into a value: all that `update`, `extend` and the like add to another collection."""

_Step = int | str
_INNER = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


@dataclass(frozen=True, eq=False)
class LiveScope:
    """The live globals and cells of a function."""

    names: Mapping[str, object]
    cells: Mapping[str, object] = field(default_factory=dict)
    parent: None = None

    @classmethod
    def of(cls, function: FunctionType) -> LiveScope:
        cells = {}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
            try:
                cells[name] = cell.cell_contents
            except ValueError:  # not yet assigned
                continue
        return cls(function.__globals__, cells)

    def find(self, name: str) -> list[Binding]:
        for names in (self.cells, self.names, vars(builtins)):
            if name in names:
                return [Binding(exactly(names[name]))]
        return []


@dataclass(frozen=True, eq=False)
class CodeScope:
    """The names of one function, class or file: its parameters, and all assignments in it."""

    tree: ast.AST
    parent: NameScope | None
    parameters: Mapping[str, Values] = field(default_factory=dict)

    def find(self, name: str) -> list[Binding]:
        bound = [Binding(self.parameters[name])] if name in self.parameters else []
        return bound + self._bindings.get(name, [])

    @property
    def outer(self) -> frozenset[str]:
        """The names that are declared global or nonlocal."""
        return _names_in(self.tree)[1]

    @property
    def _bindings(self) -> dict[str, list[Binding]]:
        return _names_in(self.tree)[0]


@lru_cache(maxsize=2048)
def _names_in(tree: ast.AST) -> tuple[dict[str, list[Binding]], frozenset[str]]:
    """Returns the bindings of the names in some code, and the names that it declares global or nonlocal."""
    bindings: dict[str, list[Binding]] = {}
    outer: set[str] = set()
    for node in statements(tree):
        for name, binding in _bound_by(node):
            bindings.setdefault(name, []).append(binding)
        for name in changed_inside(node) if isinstance(node, _INNER) else ():
            bindings.setdefault(name, []).append(Binding(None, grows=True))
        if isinstance(node, ast.Global | ast.Nonlocal):
            outer.update(node.names)
    return bindings, frozenset(outer)


@dataclass(frozen=True, eq=False)
class LoopScope:
    """The names of a comprehension."""

    tree: Comprehension
    parent: NameScope | None

    def find(self, name: str) -> list[Binding]:
        pairs = [pair for part in self.tree.generators for pair in _targets(part.target, part.iter, (EACH,))]
        return [binding for bound, binding in pairs if bound == name]


def enclosing(scope: NameScope) -> NameScope | None:
    """Returns the enclosing scope: a method does not see the names of its class."""
    parent = scope.parent
    while parent is not None and isinstance(getattr(parent, "tree", None), ast.ClassDef):
        parent = parent.parent
    return parent


def package_of(scope: NameScope | None) -> str:
    """Returns the package of the code of a scope, for its relative imports."""
    while scope is not None and not isinstance(scope, LiveScope):
        scope = scope.parent
    return str(scope.names.get("__package__") or "") if scope else ""


def statements(tree: ast.AST | list[ast.stmt]) -> Iterator[ast.AST]:
    """Yields the nodes of a function, class or file, except inside nested functions, classes and comprehensions."""
    body = tree.body if isinstance(tree, FunctionTree | ast.ClassDef | ast.Module) else tree
    pending: list[ast.AST] = list(reversed(body)) if isinstance(body, list) else [body]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _INNER | Comprehension):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def _bound_by(node: ast.AST) -> Iterable[tuple[str, Binding]]:
    """Returns the names that a node binds."""
    match node:
        case ast.Assign():
            return [pair for target in node.targets for pair in _targets(target, node.value)]
        case ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
            return _targets(node.target, value)
        case ast.AugAssign(target=ast.Name(id=name)):
            return [(name, Binding(ast.BinOp(ast.Name(name, ast.Load()), node.op, node.value)))]
        case ast.For() | ast.AsyncFor():
            return _targets(node.target, node.iter, (EACH,))
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [(node.name, Binding(node))]
        case ast.Import() | ast.ImportFrom():
            return [(name, Binding(node, (name,))) for name in map(_import_name, node.names)]
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
            return [(name, binding) for binding in _changed_by(node, method)]
        case ast.withitem(optional_vars=ast.expr() as target):
            return [(name, Binding(None)) for name in _target_names(target)]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [(name, Binding(None))]
    return []


def _changed_by(node: ast.Call, method: str) -> list[Binding]:
    """Returns the bindings for the elements that a method adds to a collection."""
    if method in values.SHUFFLES:
        return [Binding(NOTHING, grows=True)]
    if method in values.ADDS and node.args:
        return [Binding(node.args[-1], grows=True)]
    if method in values.ADDS_ALL:
        named = [Binding(keyword.value, () if keyword.arg else (ADDED,), grows=True) for keyword in node.keywords]
        return [*(Binding(argument, (ADDED,), grows=True) for argument in node.args), *named]
    return []


def changed_inside(tree: ast.AST) -> set[str]:
    """Returns the names of collections that nested functions change."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call | ast.Assign | ast.AugAssign)]
    return {name for node in calls for name, binding in _bound_by(node) if binding.grows}


def _import_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def alias_of(node: ast.Import | ast.ImportFrom, name: str) -> ast.alias:
    """Returns the part of an import that binds a name."""
    return next(alias for alias in node.names if _import_name(alias) == name)


def _targets(target: ast.AST, value: ast.AST, steps: tuple[_Step, ...] = ()) -> list[tuple[str, Binding]]:
    """Returns the bindings of an assignment: `a, b = value` binds `a` to the first element."""
    match target:
        case ast.Name(id=name):
            return [(name, Binding(value, steps))]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            if any(isinstance(part, ast.Starred) for part in parts):
                return [(name, Binding(None)) for name in _target_names(target)]
            return [pair for place, part in enumerate(parts) for pair in _targets(part, value, (*steps, place))]
        case ast.Subscript(value=ast.Name(id=name)):
            return [(name, Binding(value, steps, grows=True))]
    return []


def _target_names(target: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def bound_names(node: ast.AST) -> list[str]:
    """Returns the names that a node binds, not those whose collections it only changes."""
    return [name for name, binding in _bound_by(node) if not binding.grows]


def bound_name(tree: ast.AST, line: int) -> str:
    """Returns the name that the result of the call on a line is bound to, or the function that returns it."""
    bound_name = ""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            returned = [
                node for node in ast.walk(node) if isinstance(node, ast.Return) and _is_call_at(node.value, line)
            ]
            bound_name = node.name if returned else bound_name
        elif isinstance(node, ast.Assign | ast.AnnAssign) and _is_call_at(node.value, line):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            bound_name = getattr(target, "id", getattr(target, "attr", bound_name))
    return bound_name


def _is_call_at(value: ast.expr | None, line: int) -> bool:
    return isinstance(value, ast.Call) and value.lineno == line


# --- the syntax trees of live functions


@lru_cache(maxsize=64)
def _functions(source: str) -> dict[int, list[FunctionTree]]:
    """Returns the functions of a source, by their first lines."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    function_trees: dict[int, list[FunctionTree]] = {}
    for node in ast.walk(tree):
        if isinstance(node, FunctionTree):
            function_trees.setdefault(_first_line(node), []).append(node)
    return function_trees


def _first_line(node: FunctionTree) -> int:
    """Returns the first line of a function as the compiler counts it: the line of its first decorator."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min(node.lineno, *(decorator.lineno for decorator in decorators), node.lineno)


def find_tree(code: CodeType) -> FunctionTree | None:
    """Returns the syntax tree of a code object; None if its source is not available."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        return None
    candidates = [node for node in _functions("".join(lines)).get(code.co_firstlineno, ()) if _fits(node, code)]
    if len(candidates) > 1:
        candidates = [node for node in candidates if _covers(node, code)]
    return candidates[0] if len(candidates) == 1 else None


def _fits(node: FunctionTree, code: CodeType) -> bool:
    """Whether name and parameters are equal: the file may have changed since it was loaded."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    return name == code.co_name and _parameters(node.args) == _parameter_names(code)


def _parameters(arguments: ast.arguments) -> list[str]:
    return [posonlyarg.arg for posonlyarg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _parameter_names(code: CodeType) -> list[str]:
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def _covers(node: FunctionTree, code: CodeType) -> bool:
    """Whether the positions of the code are those of the node: distinguishes two lambdas on one line."""
    if not isinstance(node, ast.Lambda):
        return True
    body = node.body
    inside = ((body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0))
    places = list(_places(code))
    return bool(places) and min(places)[0] == inside[0] and max(end for _, end in places) == inside[1]


def _places(code: CodeType) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for line, end_line, column, end_column in code.co_positions():
        if line and end_line and column is not None and end_column is not None and (column, end_column) != (0, 0):
            yield (line, column), (end_line, end_column)


def imported_packages(tree: ast.AST) -> Iterator[str]:
    """Yields the top packages of the imports in some code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
