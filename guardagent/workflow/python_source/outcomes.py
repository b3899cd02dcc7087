"""Evaluates the results of a function without the branches that known values rule out.

Nothing is run. A condition is decided only by values that an extractor provides (such as the last speaker), and only if
all its possible values agree: a live value, such as an attribute, can change before the program runs.
"""

from __future__ import annotations

import ast
import copy
import functools
import itertools
import linecache
import operator
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import FunctionType
from typing import Any

from guardagent._support import syntax
from guardagent.workflow.python_source.bodies import ReadableFunction
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.paths import block_ends, ends
from guardagent.workflow.python_source.scopes import LiveScope, find_tree, statements
from guardagent.workflow.python_source.values import (
    Arguments,
    Attribute,
    Function,
    FunctionTree,
    NameScope,
    Sequence,
    Table,
    Values,
    exactly,
)

MOST_PAIRS = 256
_BOTH = Values((True, False))
_PLAIN = str | int | float | bool | None
_MUTATIONS = set("add append clear discard extend insert pop popitem remove setdefault update".split())
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,  # for strings, numbers and None, `is` means `==`
    ast.IsNot: operator.ne,
}


class Outcomes(Evaluator):
    """Evaluates functions branch by branch; their results include the None at their end.

    Attributes:
        known_reads: the number of reads of values that an extractor provides; a subclass counts them.
    """

    def __init__(self, follow: Callable[[FunctionType], bool] = lambda _function: True) -> None:
        super().__init__(follow=follow)
        self.known_reads = 0
        self._cut: dict[object, tuple[Arguments, Function]] = {}
        self._by_reads: dict[tuple[int, int], tuple[ast.AST | None, NameScope]] = {}

    def value(self, node: ast.AST | None, scope: NameScope) -> Values:
        """Evaluates an expression; one whose value is kept counts its reads again."""
        before, key = self.known_reads, (id(node), id(scope))
        result = super().value(node, scope)
        if self.known_reads > before:
            self._by_reads[key] = node, scope  # they stay alive, so that no other ones have their ids
        elif key in self._by_reads:
            self.known_reads += 1
        return result

    def return_values(self, function: Function, arguments: Arguments) -> Values:
        """Returns the values that a function can return for some arguments."""
        if isinstance(function.tree, ast.Lambda):
            return super().return_values(function, arguments)
        key = (id(function.tree), arguments.signature)
        if key not in self._cut:
            self._cut[key] = (arguments, function)  # for recursive calls
            self._cut[key] = (arguments, self._without_dead_branches(function, arguments))
        function = self._cut[key][1]
        result = super().return_values(function, arguments)
        return result | exactly(None) if ends_without_value(function.tree) else result

    def truth(self, node: ast.AST, scope: NameScope) -> bool | None:
        """Returns the truth of a condition; None if it is unknown."""
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.truth(operand, scope)
                return None if inner is None else not inner
            case ast.BoolOp(op=op, values=parts):
                decisive = isinstance(op, ast.Or)
                truths = [self.truth(part, scope) for part in parts]
                return decisive if decisive in truths else None if None in truths else not decisive
            case ast.Constant(value=value):
                return bool(value)
        before = self.known_reads
        agreed = self._agreed(self.value(node, scope))
        return agreed if self.known_reads > before else None

    def is_true(self, value: object) -> bool | None:
        """Returns the truth of one value; None if it is unknown."""
        if isinstance(value, _PLAIN):
            return bool(value)
        return bool(value.items) if isinstance(value, Sequence) and value.ordered else None

    def _agreed(self, values: Values) -> bool | None:
        """Returns the truth of all values; None if they differ or are incomplete."""
        truths = {self.is_true(value) for value in values.known}
        return truths.pop() if values.complete and not values.cyclic and len(truths) == 1 else None

    def _compare(self, node: ast.Compare, scope: NameScope) -> Values:
        op, right = node.ops[0], node.comparators[0]
        names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        if len(node.ops) > 1 or names & _mutated_around(scope):
            return _BOTH
        if isinstance(op, ast.In | ast.NotIn) and not self._stays(right, scope):
            return _BOTH
        results = self._compared(op, self.value(node.left, scope), self.value(right, scope))
        return _BOTH if results is None else Values(tuple(sorted(results)))

    def _compared(self, op: ast.cmpop, left: Values, right: Values) -> set[bool] | None:
        """Returns all results of a comparison; None if they are unknown."""
        if isinstance(op, ast.In | ast.NotIn):
            several = self.elements(right)
            if not _is_plain(left) or not _is_plain(several):
                return None
            return {(value in several.known) == isinstance(op, ast.In) for value in left.known}
        compare = _COMPARED.get(type(op))
        if compare is None or not _is_plain(left) or not _is_plain(right):
            return None
        return {compare(left_value, other) for left_value, other in itertools.product(left.known, right.known)}

    def _stays(self, node: ast.AST, scope: NameScope) -> bool:
        """Whether a collection keeps its elements of the code, or of now, at run time."""
        values = self.value(node, scope).known
        if len(values) != 1:
            return False
        value = values[0]
        if isinstance(value, Sequence):
            return all(len(item.known) == 1 for item in value.items)
        if isinstance(value, Table):
            return all(len(key.known) == 1 for key, _ in value.items)
        if isinstance(value, tuple | frozenset):
            return True
        return isinstance(value, list | set | dict) and isinstance(node, ast.Name)

    def call(self, target: object, arguments: Arguments, line: int = 0) -> Values:
        """Evaluates a call; `table.get(key, default)` ignores the default if the key exists."""
        if isinstance(target, Attribute) and target.name == "get" and self._has_keys(target.owner, arguments):
            return self.item(target.owner, arguments.positional[0])
        return super().call(target, arguments, line)

    def _has_keys(self, owner: object, arguments: Arguments) -> bool:
        pairs = self.pairs(owner)
        if not pairs or not arguments.positional or not _is_plain(arguments.positional[0]):
            return False
        own = {key.known[0] for key, _ in pairs if len(key.known) == 1 and key.complete and _is_plain(key)}
        return set(arguments.positional[0].known) <= own

    def _without_dead_branches(self, function: Function, arguments: Arguments) -> Function:
        tree = copy.copy(function.tree)
        assert not isinstance(tree, ast.Lambda)
        tree.body, _ = self._block(tree.body, self.body_scope(function, arguments))
        return replace(function, tree=tree)

    def _block(self, body: Iterable[ast.stmt], scope: NameScope) -> tuple[list[ast.stmt], bool]:
        """Returns the reachable statements, and whether control never reaches the end of the block."""
        kept: list[ast.stmt] = []
        for statement in body:
            more, ends = self._statement(statement, scope)
            kept += more
            if ends:
                return kept, True
        return kept, False

    def _statement(self, node: ast.stmt, scope: NameScope) -> tuple[list[ast.stmt], bool]:
        if isinstance(node, ast.If):
            holds = self.truth(node.test, scope)
            if holds is not None:
                return self._block(node.body if holds else node.orelse, scope)
        if isinstance(node, ast.Match):
            node = self._cases(node, scope)
        changed = copy.copy(node)
        for field in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, field, None), list) and not isinstance(node, ast.FunctionDef | ast.ClassDef):
                setattr(changed, field, self._block(getattr(node, field), scope)[0])
        return [changed], ends(changed)

    def _cases(self, node: ast.Match, scope: NameScope) -> ast.Match:
        """Returns a match statement without the cases that cannot match."""
        subject = self.value(node.subject, scope)
        if not _is_plain(subject):
            return node
        changed, left = copy.copy(node), set(subject.known)
        changed.cases = []
        for case in node.cases:
            values = self._case_values(case.pattern, scope)
            if values is None or values & left:
                changed.cases.append(case)
            if values is not None and case.guard is None:
                left -= values
            if not left:  # this case matches all remaining values
                changed.cases[-1] = ast.match_case(ast.MatchAs(), case.guard, case.body)
                break
        return changed

    def _case_values(self, pattern: ast.pattern, scope: NameScope) -> set[object] | None:
        """Returns the values that a pattern matches; None if it matches others, too."""
        if isinstance(pattern, ast.MatchValue):
            values = self.value(pattern.value, scope)
            return set(values.known) if _is_plain(values) else None
        if isinstance(pattern, ast.MatchOr):
            case_values = [self._case_values(pattern, scope) for pattern in pattern.patterns]
            return None if None in case_values else {value for case_value in case_values for value in case_value or ()}
        return None


def ends_without_value(tree: ast.AST) -> bool:
    """Whether a function can reach its end or a bare return."""
    if isinstance(tree, ast.Lambda):
        return False
    bare = any(isinstance(node, ast.Return) and node.value is None for node in statements(tree))
    return bare or not block_ends(getattr(tree, "body", ()))


def _is_plain(values: Values) -> bool:
    enough = values.complete and not values.cyclic and 0 < len(values.known) <= MOST_PAIRS
    return enough and all(isinstance(value, _PLAIN) for value in values.known)


def _mutated_around(scope: NameScope | None) -> frozenset[str]:
    """Returns the names in a file whose values are mutated anywhere in the file."""
    while scope is not None and not isinstance(scope, LiveScope):
        if isinstance(tree := getattr(scope, "tree", None), ast.Module):
            return _mutated_in(tree)
        scope = scope.parent
    return _mutated_in_file(str(scope.names.get("__file__") or "") if scope else "")


@functools.lru_cache(maxsize=64)
def _mutated_in_file(file: str) -> frozenset[str]:
    try:
        return _mutated_in(syntax.parse("".join(linecache.getlines(file))))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()


@functools.lru_cache(maxsize=64)
def _mutated_in(tree: ast.Module) -> frozenset[str]:
    return frozenset(name for node in ast.walk(tree) for name in _mutated_by(node))


def _mutated_by(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            return names
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in _MUTATIONS:
            return [name]
        case (
            ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del())
            | ast.AugAssign(target=ast.Name(id=name))
        ):
            return [name]
    return []


def source_text(function: Any) -> str:
    """Returns the source of a lambda, or the name of another function."""
    tree = code_of(function)
    if isinstance(tree, ast.Lambda):
        return ast.unparse(tree.body)
    return str(getattr(function, "__name__", None) or getattr(tree, "name", type(function).__name__))


def code_of(function: Any) -> FunctionTree | None:
    """Returns the syntax tree of a function; None if it is not available."""
    if isinstance(function, ReadableFunction):
        function = function.source()[1]
    if isinstance(function, Function):
        return function.tree
    return find_tree(function.__code__) if isinstance(function, FunctionType) else None
