"""Evaluates expressions to their possible values without running code; an unknown node can have any value.

An expression has a set of possible values (`values.py`). Names are looked up in scopes (`scopes.py`): the live globals
and cells of a function, or the syntax tree of a file. A partial function or a method counts as the underlying function
with its bound arguments.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from types import FunctionType, MethodType
from typing import Any, TypeGuard

from guardagent.workflow.python_source import builtins, scopes, types
from guardagent.workflow.python_source.narrowing import narrowed
from guardagent.workflow.python_source.values import (
    CYCLE,
    HARMLESS_NAMES,
    NOTHING,
    REST,
    UNKNOWN,
    Alias,
    Arguments,
    Attribute,
    Binding,
    CallResult,
    Class,
    Function,
    FunctionTree,
    ImportedName,
    Instance,
    NameScope,
    PartialFunction,
    Sequence,
    Table,
    Values,
    escapes,
    exactly,
    is_true,
    labelled,
    mutates_nothing,
    plain_string,
    small,
    union,
)

MOST_STEPS = 50_000
MOST_CALLS = 12
MOST_STRINGS = 64
MOST_LETTERS = 2_000
MOST_ITEMS = 1_000
MOST_CONTENTS = 4  # alternatives of a collection, before it counts as unordered
STRUCTURED = "with_structured_output"
_OF_TEXT = {"str", *"capitalize casefold lower lstrip removeprefix removesuffix rstrip strip title upper".split()}
_TYPING = ("typing.", "typing_extensions.", "langgraph.types.Command", "pydantic_graph.util.TypeExpression")
_NO_CODE = ast.Pass()
_NO_CONTEXT = sys.maxsize  # no enclosing expression, by its place, that a value depends on
_Visit = Callable[[Any, NameScope], Values]
_ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_BOOLEANS = Values((True, False))
_COLLECTIONS = (Sequence, Table, list, tuple, set, frozenset, dict)


def is_applied(target: object) -> bool:
    """Whether a value is a partial function or a bound method."""
    return isinstance(target, PartialFunction | functools.partial | MethodType)


def underlying(target: object, arguments: Arguments | None = None) -> tuple[object, Arguments]:
    """Returns the underlying function and its arguments."""
    arguments = arguments or Arguments()
    while True:
        match target:
            case PartialFunction(function=inner, arguments=first):
                pass
            case functools.partial(func=inner, args=args, keywords=keywords):
                first = Arguments(
                    tuple(map(exactly, args)), {name: exactly(keyword) for name, keyword in keywords.items()}
                )
            case MethodType(__func__=inner, __self__=owner):
                first = Arguments((exactly(owner),))
            case _:
                return target, arguments
        target, arguments = inner, first.then(arguments)


class Evaluator:
    """Evaluates expressions in their scopes.

    Args:
        live: names are live objects, and imports are looked up in the loaded modules.
        follow: whether to read the code of a live function that is called; if not, its result is unknown.

    Attributes:
        constants: the values of imported names, by their paths.
        evaluated: the values of expressions that are the same each time, by the identity of the code and its scope.
        is_cut_short: the budget of steps ended before all values were known.
    """

    most_steps = MOST_STEPS
    executing = False

    def __init__(self, *, live: bool = True, follow: Callable[[FunctionType], bool] = lambda _function: True) -> None:
        self.live, self.follow = live, follow
        self.constants: dict[str, object] = {}
        self._steps = 0
        self._calls: list[ast.AST] = []
        self._open: dict[tuple[int, int], int] = {}
        self._context = _NO_CONTEXT
        self.evaluated: dict[tuple[int, int], tuple[ast.AST, NameScope, Values]] = {}
        self.is_cut_short = False

    def reset(self) -> None:
        """Resets the budget of steps, for the next function."""
        self._steps, self.is_cut_short = 0, False
        self.evaluated.clear()

    @property
    def exhausted(self) -> bool:
        """Whether the budget of this part has ended, so that what follows is unknown."""
        return self._steps > self.most_steps

    def resume(self) -> None:
        """Allows further steps for code on which the edges of a graph depend."""
        self.reset()

    def more_steps(self, _node: ast.AST, _scope: NameScope) -> bool:
        """Returns whether to go on after `most_steps`, at a node."""
        return False

    def value(self, node: ast.AST | None, scope: NameScope) -> Values:
        """Returns the possible values of an expression; CYCLE for a part that depends on itself."""
        self._steps += 1
        if node is None:
            return UNKNOWN
        if self._steps > self.most_steps and not self.more_steps(node, scope):
            self.is_cut_short, self._context = True, 0
            return UNKNOWN
        key = (id(node), id(scope))
        if key in self._open:
            self._context = min(self._context, self._open[key])
            return CYCLE
        if key in self.evaluated and self.keeps_values:
            return self.evaluated[key][2]
        visit = getattr(self, f"_{type(node).__name__.lower()}", None)
        return UNKNOWN if visit is None else self._visited(key, visit, node, scope)

    @property
    def keeps_values(self) -> bool:
        """Whether an expression has the same value each time."""
        return True

    def _visited(self, key: tuple[int, int], visit: _Visit, node: ast.AST, scope: NameScope) -> Values:
        """Evaluates an expression, and keeps the value unless it depends on what is being evaluated around it."""
        around, self._context = self._context, _NO_CONTEXT
        self._open[key] = place = len(self._open) + 1
        try:
            result = visit(node, scope)
        except RecursionError:
            self._context = 0
            return UNKNOWN
        finally:
            del self._open[key]
            if self._context >= place:
                self._context = _NO_CONTEXT
            own, self._context = self._context, min(around, self._context)
        if own == _NO_CONTEXT and self.keeps_values:
            self.evaluated[key] = node, scope, result
        return result

    def name(self, name: str, scope: NameScope | None) -> Values:
        """Returns the possible values of a name."""
        while scope is not None:
            if bindings := scope.find(name):
                outside = isinstance(scope, scopes.CodeScope) and name in scope.outer
                if outside or all(binding.grows for binding in bindings):
                    around = self.name(name, scope.parent)
                    return self._grown(around | self.bound(bindings, scope), bindings, scope)
                return self._changed(name, self._grown(self.bound(bindings, scope), bindings, scope), scope)
            scope = scopes.enclosing(scope)
        return UNKNOWN

    def elements(self, values: Values) -> Values:
        """Returns the possible elements of a collection."""
        return union((self._elements(value) for value in values.known), values)

    def call(self, target: object, arguments: Arguments, line: int = 0) -> Values:
        """Returns the possible results of a call."""
        if is_applied(target):
            return self.call(*underlying(target, arguments), line)
        if isinstance(target, Function):
            return self.return_values(target, arguments)
        if (result := builtins.result(self, target, arguments)) is not None:
            return result
        if isinstance(target, FunctionType):
            return self._call_live(target, arguments)
        if isinstance(target, CallResult):
            attribute = self.attribute(target, "__call__")
            callable_ = [value for value in attribute.known if not isinstance(value, Attribute)]
            return (
                union((self.call(value, arguments, line) for value in callable_), attribute) if callable_ else UNKNOWN
            )
        if (members := types.members_of(self, target)) is not None:
            return union(members)  # one of them, by its value
        if isinstance(target, type | ImportedName | Class | Attribute):
            return exactly(CallResult(target, arguments, line))
        inner = self.call_target(target)
        return self.call(inner, arguments, line) if inner is not None else UNKNOWN

    def call_target(self, target: object) -> object | None:
        """Returns the function that a call of a live object runs: its method, or a wrapped function; else None."""
        method = builtins.call_method(target)
        if method is not None and self.follow(method.__func__):  # type: ignore[arg-type]
            return method
        return builtins.wrapped_by(target)

    def function(self, function: FunctionType) -> Function | None:
        """Returns a live function with its code; None if the source is not available."""
        tree = scopes.find_tree(function.__code__)
        if tree is None:
            return None
        return Function(tree, scopes.LiveScope.of(function), _live_defaults(function), function.__code__.co_filename)

    def return_values(self, function: Function, arguments: Arguments) -> Values:
        """Returns the values that a function can return or yield for some arguments."""
        again = self._calls.count(function.tree)
        if again or len(self._calls) >= MOST_CALLS:
            self._context = 0  # the value is another one elsewhere
        if again > 1:  # a recursive call with unknown arguments
            return CYCLE
        if len(self._calls) >= MOST_CALLS:
            return UNKNOWN
        scope = self.body_scope(function, Arguments(open=True) if again else arguments)
        self._calls.append(function.tree)
        try:
            return union(self.value(expression, scope) for expression in _results(function))
        finally:
            self._calls.pop()

    def class_shown(self, kind: object) -> object:
        """Returns a class as an extractor sees it: of a class that exists only in code, its stub."""
        return kind

    def body_scope(self, function: Function, arguments: Arguments) -> scopes.CodeScope:
        """Returns the scope of the body of a function for some arguments."""
        return scopes.CodeScope(function.tree, function.scope, self._parameters(function, arguments))

    def arguments(self, node: ast.Call, scope: NameScope) -> Arguments:
        """Returns the arguments of a call."""
        positional: list[Values] = []
        keywords: dict[str, Values] = {}
        is_open = False
        for argument in node.args:
            values = self.value(argument.value if isinstance(argument, ast.Starred) else argument, scope)
            items = self.ordered_elements(values) if isinstance(argument, ast.Starred) else [values]
            if items is None or REST in keywords:  # its position is unknown
                more = self.elements(values) if isinstance(argument, ast.Starred) else values
                keywords[REST] = keywords.get(REST, NOTHING) | more
            else:
                positional.extend(items)
        keywords |= {keyword.arg: self.value(keyword.value, scope) for keyword in node.keywords if keyword.arg}
        for splat in (keyword for keyword in node.keywords if not keyword.arg):
            pairs, whole = self._keyword_arguments(self.value(splat.value, scope))
            is_open = is_open or not whole
            keywords |= pairs
        return Arguments(tuple(positional), keywords, is_open)

    def _keyword_arguments(self, values: Values) -> tuple[dict[str, Values], bool]:
        """Returns the known keyword arguments of `**values`, and whether they are complete."""
        keywords: dict[str, Values] = {}
        whole = values.complete
        for mapping in values.known:
            pairs = self.pairs(mapping) if isinstance(mapping, Table | dict) else None
            whole = whole and pairs is not None
            for key, value in pairs or ():
                if key.strings is None or len(key.strings) != 1:
                    whole = False
                    continue
                name = next(iter(key.strings))
                keywords[name] = keywords.get(name, NOTHING) | value
        return keywords, whole

    # One method for each kind of node.

    def _constant(self, node: ast.Constant, _scope: NameScope) -> Values:
        return exactly(node.value)

    def _name(self, node: ast.Name, scope: NameScope) -> Values:
        values = self.name(node.id, scope)
        certain = values.complete and all(isinstance(value, str) for value in values.known)
        if certain or not isinstance(scope, scopes.CodeScope) or not isinstance(scope.tree, FunctionTree):
            return values
        result = NOTHING
        for expression, each in narrowed(scope.tree).get(id(node), ()):
            several = self.value(expression, scope)
            if each and not all(isinstance(value, _COLLECTIONS) for value in several.known):
                return values  # `in` looks for parts of a string
            result |= self.elements(several) if each else several
        return result if result.known and result.complete and not result.cyclic else values

    def _attribute(self, node: ast.Attribute, scope: NameScope) -> Values:
        return labelled(self.attributes_of(self.value(node.value, scope), node.attr), node.attr)

    def attributes_of(self, owner: Values, name: str) -> Values:
        """Returns the possible values of an attribute of some values."""
        return union((self.attribute(value, name) for value in owner.known), owner)

    def attribute(self, owner: object, name: str) -> Values:
        """Returns the possible values of an attribute of one value."""
        return builtins.look_up(self, owner, name)

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Values:
        owner = self.value(node.value, scope)
        if isinstance(node.slice, ast.Slice):
            return self._sliced(owner, node.slice, scope)
        if any(isinstance(value, ImportedName) and value.path.startswith(_TYPING) for value in owner.known):
            return exactly(Alias(node, scope))
        key = self.value(node.slice, scope)
        items = union((self.item(value, key) for value in owner.known), owner)
        return labelled(items, *key.strings) if key.strings and len(key.strings) == 1 else items

    def _sliced(self, owner: Values, part: ast.Slice, scope: NameScope) -> Values:
        """Evaluates a slice of a collection; if the bounds are unknown, any of its elements."""
        items = self.ordered_elements(owner)
        ends = [self.value(limit, scope).known if limit else (None,) for limit in (part.lower, part.upper, part.step)]
        if items is not None and not owner.cyclic and all(len(end) == 1 and _is_place(end[0]) for end in ends):
            return exactly(Sequence(tuple(items[slice(*(end[0] for end in ends))])))
        inner = self.elements(owner)
        return Values((Sequence((inner,), ordered=False),), cyclic=inner.cyclic)

    def item(self, owner: object, key: Values) -> Values:
        """Returns the possible values of a collection under a key."""
        if isinstance(owner, Instance):
            names = key.strings
            return union((types.field_value(self, owner.of, name) for name in names), key) if names else UNKNOWN
        pairs = self.pairs(owner)
        if pairs is not None and isinstance(owner, Sequence | list | tuple):
            key = Values(tuple(_from_start(value, len(pairs)) for value in key.known), key.complete, key.cyclic)
        return _pick(pairs, key)

    def pairs(self, owner: object) -> list[tuple[Values, Values]] | None:
        """Returns the keys and values of a dictionary, or the indices and elements of a sequence; None if unknown."""
        if isinstance(owner, Table):
            return list(owner.items)
        if isinstance(owner, Sequence):
            return [(exactly(place) if owner.ordered else UNKNOWN, item) for place, item in enumerate(owner.items)]
        if isinstance(owner, dict):
            return [(exactly(key), exactly(value)) for key, value in dict.items(owner)]
        if isinstance(owner, list | tuple):
            return [(exactly(place), exactly(value)) for place, value in enumerate(owner)]
        return None

    def _ifexp(self, node: ast.IfExp, scope: NameScope) -> Values:
        truth = self.truth(node.test, scope)
        if truth is not None:
            return self.value(node.body if truth else node.orelse, scope)
        return self.value(node.body, scope) | self.value(node.orelse, scope)

    def truth(self, node: ast.AST, scope: NameScope) -> bool | None:
        """Returns the truth of a condition; None if it is unknown."""
        values = self.value(node, scope)
        settled = values.complete and not values.cyclic and not any(isinstance(value, str) for value in values.known)
        truths = {is_true(value) for value in values.known} if settled else set()
        return truths.pop() if len(truths) == 1 else None

    def _boolop(self, node: ast.BoolOp, scope: NameScope) -> Values:
        """Returns the operands that can be the result; `a and b` can be `a` only if `a` is false."""
        result = NOTHING
        if isinstance(node.op, ast.And):
            for value in node.values[:-1]:
                truth = self.truth(value, scope)
                if truth is False:
                    return result | self.value(value, scope)
                result |= NOTHING if truth else exactly(None)
            return result | self.value(node.values[-1], scope)
        for value in node.values[:-1]:
            values = self.value(value, scope)
            result |= Values(tuple(v for v in values.known if is_true(v) is not False), values.complete, values.cyclic)
            if values.complete and values.known and not values.cyclic and all(map(is_true, values.known)):
                return result
        return result | self.value(node.values[-1], scope)

    def _compare(self, node: ast.Compare, scope: NameScope) -> Values:
        """Compares two plain values, if each is known."""
        left, right = self.value(node.left, scope), self.value(node.comparators[0], scope)
        both = [*left.known, *right.known]
        certain = left.complete and right.complete and not (left.cyclic or right.cyclic)
        if len(node.ops) > 1 or not certain or len(left.known) != 1 or len(right.known) != 1:
            return _BOOLEANS
        if isinstance(node.ops[0], ast.Is | ast.IsNot) and right.known[0] is None:
            return exactly((left.known[0] is None) == isinstance(node.ops[0], ast.Is))
        if type(node.ops[0]) in _ORDERS and {type(operand) for operand in both} == {int}:
            return exactly(_ORDERS[type(node.ops[0])](left.known[0], right.known[0]))
        plain = all(type(operand) in {str, int, bool} for operand in both)
        if not isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot) or not plain:
            return _BOOLEANS
        same = left.known[0] == right.known[0]
        if isinstance(node.ops[0], ast.Is | ast.IsNot):
            same = same and type(left.known[0]) is type(right.known[0])
            if same and type(left.known[0]) is not bool and not isinstance(node.comparators[0], ast.Attribute):
                return _BOOLEANS  # equal values need not be one object; members of an enumeration are
        return exactly(same == isinstance(node.ops[0], ast.Eq | ast.Is))

    def _unaryop(self, node: ast.UnaryOp, scope: NameScope) -> Values:
        if isinstance(node.op, ast.Not):
            truth = self.truth(node.operand, scope)
            return _BOOLEANS if truth is None else exactly(not truth)
        number = self.value(node.operand, scope)
        if isinstance(node.op, ast.USub) and number.known and isinstance(number.known[0], int) and number.complete:
            return exactly(-number.known[0])
        return UNKNOWN

    def _namedexpr(self, node: ast.NamedExpr, scope: NameScope) -> Values:
        return self.value(node.value, scope)

    def _await(self, node: ast.Await, scope: NameScope) -> Values:
        return self.value(node.value, scope)

    def _lambda(self, node: ast.Lambda, scope: NameScope) -> Values:
        return exactly(Function(node, scope))

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef, scope: NameScope) -> Values:
        """Evaluates a function definition with its decorators, if those are known."""
        result = exactly(Function(node, scope))
        for decorator in reversed(node.decorator_list):
            result = self._decorated(self.value(decorator, scope), result, node)
        return result

    _asyncfunctiondef = _functiondef

    def _decorated(self, decorators: Values, function: Values, node: ast.AST) -> Values:
        if not decorators.complete:  # an unknown decorator usually leaves the function unchanged
            return function
        line = getattr(node, "lineno", 0)
        results = union(self.call(decorator, Arguments((function,)), line) for decorator in decorators.known)
        return results if results.complete else function

    def _classdef(self, node: ast.ClassDef, scope: NameScope) -> Values:
        return exactly(Class(node, scope))

    def _list(self, node: ast.List | ast.Tuple | ast.Set, scope: NameScope) -> Values:
        contents: list[list[Values]] = [[]]
        ordered = not isinstance(node, ast.Set)
        for elt in node.elts:
            values = self.value(elt.value if isinstance(elt, ast.Starred) else elt, scope)
            ways = self._contents(values) if isinstance(elt, ast.Starred) else [[values]]
            if ways is None or len(contents) * len(ways) > MOST_CONTENTS:
                ordered, ways = False, [[self.elements(values)]]
            contents = [[*before, *way] for before in contents for way in ways]
        return Values(tuple(Sequence(tuple(items), ordered) for items in contents))

    def _contents(self, values: Values) -> list[list[Values]] | None:
        """Returns the possible contents of a list, each in order; None if they are unknown or too many."""
        contents = [self.ordered_elements(exactly(value)) for value in values.known[: MOST_CONTENTS + 1]]
        known = [items for items in contents if items is not None]
        certain = values.complete and not values.cyclic and 0 < len(known) == len(contents) <= MOST_CONTENTS
        return known if certain else None

    _tuple = _set = _list

    def _dict(self, node: ast.Dict, scope: NameScope) -> Values:
        items: list[tuple[Values, Values]] = []
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None:
                items.append((self.value(key, scope), self.value(value, scope)))
                continue
            merged = self.value(value, scope)
            merged_pairs = [self.pairs(value) for value in merged.known]
            if not merged.complete or None in merged_pairs:
                items.append((UNKNOWN, UNKNOWN))
            items.extend(pair for pairs in merged_pairs for pair in pairs or ())
        return exactly(Table(tuple(items)))

    def _listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, scope: NameScope) -> Values:
        rounds, certain = self._rounds_of(node, scope)
        if rounds is not None:
            items = tuple(self.value(node.elt, round_scope) for round_scope in rounds)
            return exactly(Sequence(items, ordered=certain and not isinstance(node, ast.SetComp)))
        return exactly(Sequence((self.value(node.elt, scopes.LoopScope(node, scope)),), ordered=False))

    _setcomp = _generatorexp = _listcomp

    def _dictcomp(self, node: ast.DictComp, scope: NameScope) -> Values:
        rounds, certain = self._rounds_of(node, scope)
        each = rounds if rounds is not None and certain else [scopes.LoopScope(node, scope)]
        return exactly(Table(tuple((self.value(node.key, inner), self.value(node.value, inner)) for inner in each)))

    def _rounds_of(self, node: scopes.Comprehension, scope: NameScope) -> tuple[list[Any] | None, bool]:
        """Returns the scope of each round of a comprehension, None if unknown, and whether no filter is unknown."""
        rounds: list[Any] = [scope]
        certain = True
        for part in node.generators:
            inner: list[Any] = []
            for around in rounds:
                values = self.value(part.iter, around)
                items = self.ordered_elements(values)
                if items is None or values.cyclic or len(items) + len(inner) > MOST_STRINGS:
                    return None, False
                inner += [scopes.CodeScope(_NO_CODE, around, self._unpacked(part.target, item)) for item in items]
            for test in part.ifs:
                truths = [self.truth(test, each) for each in inner]
                certain = certain and None not in truths
                inner = [each for each, truth in zip(inner, truths, strict=True) if truth is not False]
            rounds = inner
        return rounds, certain

    def _unpacked(self, target: ast.expr, values: Values) -> dict[str, Values]:
        """Returns the values of the names in a target."""
        if isinstance(target, ast.Name):
            return {target.id: values}
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
        items = self.ordered_elements(values)
        whole = (
            items is not None and len(items) == len(parts) and not any(isinstance(part, ast.Starred) for part in parts)
        )
        unpacked: dict[str, Values] = {}
        for place, part in enumerate(parts):
            unpacked |= self._unpacked(part, items[place] if whole and items is not None else UNKNOWN)
        if isinstance(target, ast.Starred) and isinstance(target.value, ast.Name):
            unpacked[target.value.id] = UNKNOWN
        return unpacked

    def _joinedstr(self, node: ast.JoinedStr, scope: NameScope) -> Values:
        return self._text(self.strings([self.value(part, scope) for part in node.values]))

    def _text(self, values: Values) -> Values:
        """Returns the values of an expression that is a string, also if the source does not determine it."""
        return values if values.known or self.executing else types.SOME_STRING

    def _formattedvalue(self, node: ast.FormattedValue, scope: NameScope) -> Values:
        return self.value(node.value, scope) if node.conversion == -1 and node.format_spec is None else UNKNOWN

    def strings(self, parts: list[Values]) -> Values:
        """Returns the concatenations of the possible values of some parts."""
        total = 1
        for part in parts:
            total *= len(part.known)
            whole = part.complete and all(isinstance(value, str | int) for value in part.known)
            if part.cyclic or not whole or total > MOST_STRINGS:
                return UNKNOWN
        texts = ("".join(map(str, chosen)) for chosen in itertools.product(*(part.known for part in parts)))
        if sum(len(str(value)) for part in parts for value in part.known) > MOST_LETTERS:
            return UNKNOWN
        return Values(tuple(texts))

    def _binop(self, node: ast.BinOp, scope: NameScope) -> Values:
        if isinstance(node.op, ast.BitOr):
            left, right = self.value(node.left, scope), self.value(node.right, scope)
            if any(isinstance(value, type | Class | Alias) for value in (*left.known, *right.known)):
                return exactly(Alias(node, scope))
            return self._merged(left, right)
        if not isinstance(node.op, ast.Add | ast.Sub):
            return UNKNOWN
        left, right = self.value(node.left, scope), self.value(node.right, scope)
        if (first := left.number) is not None and (second := right.number) is not None:
            return small(first + second if isinstance(node.op, ast.Add) else first - second)
        if isinstance(node.op, ast.Sub):
            return UNKNOWN
        both = left.known + right.known
        if any(isinstance(operand, Sequence | list | tuple) for operand in both):
            return self._chained(left, right)
        return self.strings([left, right]) if all(isinstance(operand, str) for operand in both) else UNKNOWN

    def _chained(self, left: Values, right: Values) -> Values:
        """Concatenates two lists."""
        first, second = self._contents(left), self._contents(right)
        chains = [[*before, *after] for before in first or () for after in second or ()]
        if 0 < len(chains) <= MOST_CONTENTS and max(map(len, chains)) <= MOST_ITEMS:
            return Values(tuple(Sequence(tuple(items)) for items in chains))
        items = self.elements(left) | self.elements(right)
        return Values((Sequence((items,), ordered=False),), cyclic=items.cyclic)

    def _merged(self, left: Values, right: Values) -> Values:
        """Merges two dictionaries."""
        merged_pairs = [self.pairs(value) for value in left.known + right.known]
        if not (left.complete and right.complete) or None in merged_pairs:
            return UNKNOWN
        return exactly(Table(tuple(pair for pairs in merged_pairs for pair in pairs or ())))

    def _call(self, node: ast.Call, scope: NameScope) -> Values:
        if isinstance(node.func, ast.Attribute) and node.func.attr == STRUCTURED:  # of any model
            return exactly(CallResult(Attribute(None, STRUCTURED), self.arguments(node, scope), node.lineno))
        values = self.called(self.value(node.func, scope), node, scope)
        return self._text(values) if getattr(node.func, "attr", getattr(node.func, "id", "")) in _OF_TEXT else values

    def called(self, callee: Values, node: ast.Call, scope: NameScope) -> Values:
        """Returns the possible results of a call of some values."""
        if not callee.known:
            return UNKNOWN
        arguments = self.arguments(node, scope)
        return union((self.call_at(target, arguments, node, scope) for target in callee.known), callee)

    def call_at(self, target: object, arguments: Arguments, node: ast.Call, _scope: NameScope) -> Values:
        """Returns the possible results of a call at a place in the code."""
        return self.call(target, arguments, node.lineno)

    def _yield(self, _node: ast.Yield, _scope: NameScope) -> Values:
        return UNKNOWN

    def _import(self, node: ast.Import, name: str) -> Values:
        alias = scopes.alias_of(node, name)
        return self.resolved_import(alias.name if alias.asname else name)

    def _importfrom(self, node: ast.ImportFrom, name: str, package: str) -> Values:
        alias = scopes.alias_of(node, name)
        parents = package.split(".")[: 1 - node.level or None] if node.level else []
        return self.resolved_import(".".join([*filter(None, parents), *filter(None, [node.module]), alias.name]))

    def resolved_import(self, path: str) -> Values:
        """Returns the value at a path: a known constant, a loaded live object, or an imported name."""
        if path in self.constants:
            return exactly(self.constants[path])
        if self.live:
            if path in sys.modules:
                return exactly(sys.modules[path])
            module, _, name = path.rpartition(".")
            if module in sys.modules and name in vars(sys.modules[module]):
                return exactly(vars(sys.modules[module])[name])
        return exactly(ImportedName(path))

    # Bindings of names.

    def bound(self, bindings: Iterable[Binding], scope: NameScope) -> Values:
        result = NOTHING
        for binding in bindings:
            result |= self._one_bound(binding, scope)
        return result

    def _changed(self, name: str, values: Values, scope: NameScope) -> Values:
        """Adds unknown elements to a collection that escapes in its function."""
        if not isinstance(scope, scopes.CodeScope) or not any(
            isinstance(value, Sequence | Table) for value in values.known
        ):
            return values
        if not escapes(scope.tree, name, lambda call: self._leaves_unchanged(call, scope)):
            return values
        return Values(
            tuple(self.with_elements(value, [UNKNOWN]) for value in values.known), values.complete, values.cyclic
        )

    def _leaves_unchanged(self, call: ast.Call, scope: NameScope) -> bool:
        """Whether a call leaves its arguments unchanged."""
        name = getattr(call.func, "id", getattr(call.func, "attr", ""))
        if name in HARMLESS_NAMES:
            return True
        callee = self.value(call.func, scope)
        trees = [self._tree_of(value) for value in callee.known]
        return bool(trees) and callee.complete and all(tree is not None and mutates_nothing(tree) for tree in trees)

    def _tree_of(self, target: object) -> ast.AST | None:
        if isinstance(target, PartialFunction):
            return self._tree_of(target.function)
        if isinstance(target, FunctionType):
            return scopes.find_tree(target.__code__) if self.follow(target) else None
        return target.tree if isinstance(target, Function) else None

    def _one_bound(self, binding: Binding, scope: NameScope) -> Values:
        source = binding.source
        if binding.grows:
            return NOTHING
        if source is None or isinstance(source, Values):
            return UNKNOWN if source is None else source
        if isinstance(source, ast.Import | ast.ImportFrom):
            return self.import_any(source, binding, scope)
        if isinstance(scope, scopes.LoopScope) and source is scope.tree.generators[0].iter:
            # the first iterable of a comprehension belongs to the scope around it: `[x for x in x]`
            return self._stepped(self.value(source, scope.parent or scope), binding.steps)
        return self._stepped(self.value(source, scope), binding.steps)

    def import_any(self, source: ast.Import | ast.ImportFrom, binding: Binding, scope: NameScope) -> Values:
        name = str(binding.steps[0])
        if isinstance(source, ast.Import):
            return self._import(source, name)
        return self._importfrom(source, name, scopes.package_of(scope))

    def _grown(self, values: Values, bindings: Iterable[Binding], scope: NameScope) -> Values:
        """Returns the collection of a name, with all elements that its scope adds."""
        added = [self._added(binding, scope) for binding in bindings if binding.grows]
        if not added:
            return values
        return Values(tuple(self.with_elements(value, added) for value in values.known), values.complete, values.cyclic)

    def _added(self, binding: Binding, scope: NameScope) -> Values:
        source = binding.source
        values = source if isinstance(source, Values) else self.value(source, scope)
        if scopes.ADDED not in binding.steps:
            return self._stepped(values, binding.steps)
        pairs = [self.pairs(value) if isinstance(value, Table | dict) else None for value in values.known]
        if None in pairs or not pairs:
            return self.elements(values)
        return union((value for some in pairs for _, value in some or ()), values)

    def with_elements(self, collection: object, added: list[Values]) -> object:
        if isinstance(collection, Table | dict):
            pairs = self.pairs(collection) or []
            return Table((*pairs, *((UNKNOWN, values) for values in added)))
        if isinstance(collection, Sequence | list | set | tuple):
            return Sequence((self._elements(collection), *added), ordered=False)
        return collection

    def _stepped(self, values: Values, steps: Iterable[int | str]) -> Values:
        for step in steps:
            if step == scopes.EACH:
                values = self.elements(values)
            else:
                key = exactly(step)
                values = union((self.item(value, key) for value in values.known), values)
        return values

    def _elements(self, value: object) -> Values:
        if isinstance(value, Table | dict):
            return union((key for key, _ in self.pairs(value) or ()))
        if isinstance(value, Sequence):
            return union(value.items)
        if isinstance(value, list | tuple | set | frozenset) or _is_short(value):
            return Values(tuple(value))
        members = types.members_of(self, value)
        return UNKNOWN if members is None else union(members)

    def ordered_elements(self, values: Values) -> list[Values] | None:
        """Returns the elements of a collection in order; None if their number or order is unknown."""
        if len(values.known) != 1 or not values.complete:
            return None
        value = values.known[0]
        if isinstance(value, Sequence):
            return list(value.items) if value.ordered else None
        if (members := types.members_of(self, value)) is not None:
            return members
        if isinstance(value, Table):
            keys = [key for key, _ in value.items]
            return keys if all(key.strings and len(key.strings) == 1 for key in keys) else None
        if _is_short(value):
            return [exactly(item) for item in value]
        return [exactly(item) for item in value] if isinstance(value, list | tuple) else None

    # Calls.

    def _call_live(self, function: FunctionType, arguments: Arguments) -> Values:
        wrapped = getattr(function, "__wrapped__", None)
        if not self.follow(function):
            if isinstance(wrapped, FunctionType):
                return self.call(wrapped, arguments)
            return Values((CallResult(function, arguments),), complete=False)
        readable = self.function(function)
        return self.return_values(readable, arguments) if readable else UNKNOWN

    def _parameters(self, function: Function, arguments: Arguments) -> dict[str, Values]:
        spec = function.tree.args
        names = [posonlyarg.arg for posonlyarg in (*spec.posonlyargs, *spec.args)]
        bound = dict(zip(names, arguments.positional, strict=False))
        parameter_names = {*names, *(kwonlyarg.arg for kwonlyarg in spec.kwonlyargs)}
        bound |= {name: keyword for name, keyword in arguments.keywords.items() if name in parameter_names}
        for parameter in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            if parameter.arg not in bound:
                more = REST in arguments.keywords and parameter not in spec.kwonlyargs
                bound[parameter.arg] = self._default(function, parameter, is_open=arguments.open or more)
        if spec.vararg:
            rest = arguments.positional[len(names) :]
            if REST in arguments.keywords:
                rest = (*rest, arguments.keywords[REST])
            listed = exactly(Sequence(tuple(rest), ordered=REST not in arguments.keywords))
            bound[spec.vararg.arg] = UNKNOWN if arguments.open else listed
        if spec.kwarg:
            named = [
                (exactly(name), keyword)
                for name, keyword in arguments.keywords.items()
                if name not in {*parameter_names, REST}
            ]
            unnamed = [(UNKNOWN, UNKNOWN)] if arguments.open else []
            bound[spec.kwarg.arg] = exactly(Table((*named, *unnamed))) if named or not unnamed else UNKNOWN
        return bound

    def _default(self, function: Function, parameter: ast.arg, *, is_open: bool) -> Values:
        """Returns the value of a parameter without an argument: its default, or a value of its declared type."""
        annotated = types.annotated_value(self, parameter.annotation, function.scope)
        default = self._default_value(function, parameter.arg)
        if default is None:
            return annotated
        return default | annotated if is_open else default

    def _default_value(self, function: Function, name: str) -> Values | None:
        if function.defaults is not None:
            return function.defaults.get(name)
        default = defaults_of(function.tree.args).get(name)
        return None if default is None else self.value(default, function.scope)


def defaults_of(spec: ast.arguments) -> dict[str, ast.expr]:
    """Returns the default of each parameter that has one."""
    ordered = [*spec.posonlyargs, *spec.args]
    pairs = [
        *zip(ordered[len(ordered) - len(spec.defaults) :], spec.defaults, strict=True),
        *zip(spec.kwonlyargs, spec.kw_defaults, strict=True),
    ]
    return {parameter.arg: default for parameter, default in pairs if default is not None}


def _is_short(value: object) -> TypeGuard[str | range]:
    """Whether a value is a string or a range that is short enough to enumerate."""
    return (type(value) is str or type(value) is range) and len(value) <= MOST_STRINGS


def _is_place(value: object) -> bool:
    return value is None or type(value) is int


def _pick(pairs: list[tuple[Values, Values]] | None, key: Values) -> Values:
    """Returns the values of a key; of an unknown key, all values."""
    if pairs is None:
        return UNKNOWN
    wanted = set(map(_comparable, key.known))
    if key.cyclic or not key.complete or UNKNOWN in wanted:
        return union((value for _, value in pairs))
    return union((value for own, value in pairs if _meets(own, wanted)))


def _from_start(place: object, size: int) -> object:
    """Returns an index counted from the start of a list."""
    return place + size if type(place) is int and place < 0 else place


def _meets(own: Values, wanted: set[object]) -> bool:
    keys = set(map(_comparable, own.known))
    return not own.complete or UNKNOWN in keys or bool(keys & wanted)


def _comparable(key: object) -> object:
    """Returns a comparable form of a key; UNKNOWN if only its own code can compare it."""
    if isinstance(key, Enum):
        return plain_string(key) if isinstance(key, str) else id(key)
    return key if key is None or type(key) in {str, int, bool} else UNKNOWN


def _results(function: Function) -> Iterator[ast.AST | None]:
    """Yields the returned and yielded expressions of a function, without bare returns."""
    if isinstance(function.tree, ast.Lambda):
        yield function.tree.body
        return
    for node in scopes.statements(function.tree):
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            yield node.value


def _live_defaults(function: FunctionType) -> dict[str, Values]:
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    arguments: dict[str, Any] = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return {name: exactly(argument) for name, argument in (arguments | (function.__kwdefaults__ or {})).items()}
