"""The paths through a function: in what order it comes to some calls, and where a person has been asked before."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from guardagent.workflow.python_source.evaluation.values import FunctionTree

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


@dataclass(frozen=True)
class Point:
    """A place in a run of a function.

    Attributes:
        asked: every path that leads here has asked a person.
        sure: every run of the function comes here, unless it raises.
        last: the marked calls that a run can have come to last; None stands for the function's beginning.
    """

    asked: bool = False
    sure: bool = True
    last: frozenset[int | None] = frozenset({None})


@dataclass(eq=False)
class Flow:
    """Follows the paths through a function.

    Args:
        asks: whether a call asks a person, whatever happens in it.
        marks: the calls of which the order is wanted.

    Attributes:
        calls: where each call stands, by the identity of its node.
        exits: where the function returns, or ends.
        returns: by the identity of a return statement, whether a person has been asked on every path that ends there.
        order: which marked call can follow which, by the identities of their nodes.
    """

    asks: Callable[[ast.Call], bool]
    marks: Callable[[ast.Call], bool] = lambda _call: False
    calls: dict[int, Point] = field(default_factory=dict)
    exits: list[Point] = field(default_factory=list)
    returns: dict[int, bool] = field(default_factory=dict)
    order: set[tuple[int | None, int]] = field(default_factory=set)
    _met: list[int] = field(default_factory=list)
    _breaks: list[list[Point]] = field(default_factory=list)
    _continues: list[list[Point]] = field(default_factory=list)
    _left: int = 0

    @classmethod
    def through(
        cls,
        tree: FunctionTree,
        asks: Callable[[ast.Call], bool],
        marks: Callable[[ast.Call], bool] = lambda _call: False,
    ) -> Flow:
        flow = cls(asks, marks)
        if isinstance(tree, ast.Lambda):
            flow.exits.append(flow._expression(tree.body, Point()))
        elif (end := flow._block(tree.body, Point())) is not None:
            flow.exits.append(end)
        return flow

    @property
    def always_asks(self) -> bool:
        """Every run that does not raise has asked a person by its end."""
        return bool(self.exits) and all(point.asked for point in self.exits)

    def _block(self, body: Iterable[ast.stmt], point: Point) -> Point | None:
        """Goes through some statements; None where none of the paths leads to their end."""
        now: Point | None = point
        for statement in body:
            if now is None:
                return None
            now = self._statement(statement, now)
        return now

    def _statement(self, node: ast.stmt, point: Point) -> Point | None:
        visit = getattr(self, f"_{type(node).__name__.lower()}", None)
        if visit is not None:
            result: Point | None = visit(node, point)
            return result
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                point = self._expression(child, point)
        return point

    def _return(self, node: ast.Return, point: Point) -> None:
        self.exits.append(self._expression(node.value, point))
        self.returns[id(node)] = self.exits[-1].asked and self.returns.get(id(node), True)
        self._left += 1

    def _raise(self, node: ast.Raise, point: Point) -> None:
        self._expression(node.exc, point)

    def _break(self, _node: ast.Break, point: Point) -> None:
        self._left += 1
        if self._breaks:
            self._breaks[-1].append(point)

    def _continue(self, _node: ast.Continue, point: Point) -> None:
        self._left += 1
        if self._continues:
            self._continues[-1].append(point)

    def _functiondef(self, _node: ast.stmt, point: Point) -> Point:
        return point

    _asyncfunctiondef = _classdef = _functiondef

    def _if(self, node: ast.If, point: Point) -> Point | None:
        point = self._expression(node.test, point)
        return self._branches(point, [node.body, node.orelse])

    def _match(self, node: ast.Match, point: Point) -> Point | None:
        point = self._expression(node.subject, point)
        last = node.cases[-1]
        whole = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
        return self._branches(point, [*(case.body for case in node.cases), *([] if whole else [[]])])

    def _branches(self, point: Point, bodies: list[list[ast.stmt]]) -> Point | None:
        left = self._left
        ends = [self._block(body, replace(point, sure=False)) for body in bodies]
        return self._joined(ends, sure=point.sure and self._left == left)

    def _joined(self, ends: Iterable[Point | None], *, sure: bool) -> Point | None:
        """Where paths meet: a person has been asked if on each of them."""
        points = [one for one in ends if one is not None]
        return Point(all(one.asked for one in points), sure, _last(points)) if points else None

    def _while(self, node: ast.While, point: Point) -> Point | None:
        point = self._expression(node.test, point)
        if isinstance(node.test, ast.Constant) and node.test.value:
            return self._endless(node, point)
        return self._loop(node, point)

    def _endless(self, node: ast.While, point: Point) -> Point | None:
        """`while True`: its body is come to, and it is left by a break only."""
        exits = len(self.exits)
        breaks, _ = self._rounds(point, node.body)
        return self._joined(breaks, sure=point.sure and len(self.exits) == exits)

    def _rounds(self, point: Point, body: Iterable[ast.stmt]) -> tuple[list[Point], Point]:
        """Goes through a loop's body as often as brings anything new: where it is left, and how a round can begin."""
        while True:
            self._breaks.append([])
            self._continues.append([])
            end = self._block(body, point)
            breaks, continues = self._breaks.pop(), self._continues.pop()
            last = _last([point, *continues, *([end] if end else [])])
            if last == point.last:
                return breaks, point
            point = replace(point, last=last)

    def _for(self, node: ast.For | ast.AsyncFor, point: Point) -> Point | None:
        return self._loop(node, self._expression(node.iter, point))

    _asyncfor = _for

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, point: Point) -> Point | None:
        """A loop whose body may not be come to at all."""
        exits = len(self.exits)
        breaks, begin = self._rounds(replace(point, sure=False), node.body)
        ended = replace(point, last=begin.last, sure=point.sure and not breaks)
        return self._joined([self._block(node.orelse, ended), *breaks], sure=point.sure and len(self.exits) == exits)

    def _with(self, node: ast.With | ast.AsyncWith, point: Point) -> Point | None:
        for item in node.items:
            point = self._expression(item.context_expr, point)
        return self._block(node.body, point)

    _asyncwith = _with

    def _try(self, node: ast.Try, point: Point) -> Point | None:
        left = self._left
        inside = replace(point, sure=point.sure and not node.handlers)
        met = len(self._met)
        body = self._block([*node.body, *node.orelse], inside)
        raised = replace(point, sure=False, last=point.last | frozenset(self._met[met:]))
        handlers = [self._block(one.body, raised) for one in node.handlers]
        after = self._joined([body, *handlers], sure=point.sure and self._left == left)
        finally_ = self._block(node.finalbody, after or raised)
        return finally_ if after is not None else None

    _trystar = _try

    def _expression(self, node: ast.expr | None, point: Point) -> Point:
        """Goes through an expression in the order in which it is worked out."""
        match node:
            case None | ast.Lambda():
                return point
            case ast.IfExp():
                point = self._expression(node.test, point)
                ends = [self._expression(one, replace(point, sure=False)) for one in (node.body, node.orelse)]
                return replace(point, asked=all(one.asked for one in ends), last=_last(ends))
            case ast.BoolOp():
                point = self._expression(node.values[0], point)
                rest = self._each(node.values[1:], replace(point, sure=False))
                return replace(point, last=_last([point, rest]))
        if isinstance(node, _COMPREHENSIONS):
            return self._comprehension(node, point)
        point = self._each((one for one in _children(node)), point)
        if isinstance(node, ast.Call):
            return self._meet(node, point)
        return point

    def _meet(self, node: ast.Call, point: Point) -> Point:
        """Comes to a call."""
        before = self.calls.get(id(node), point)
        self.calls[id(node)] = Point(before.asked and point.asked, before.sure and point.sure)
        asked = point.asked or self.asks(node)
        if not self.marks(node):
            return replace(point, asked=asked)
        self.order |= {(last, id(node)) for last in point.last}
        self._met.append(id(node))
        return replace(point, asked=asked, last=frozenset({id(node)}))

    def _comprehension(self, node: ast.expr, point: Point) -> Point:
        generators = getattr(node, "generators", [])
        point = self._expression(generators[0].iter, point)
        parts = [one for part in generators for one in (part.iter, *part.ifs)][1:]
        parts += [one for name in ("key", "value", "elt") if (one := getattr(node, name, None)) is not None]
        inside = replace(point, sure=False)
        while (last := _last([inside, self._each(parts, inside)])) != inside.last:
            inside = replace(inside, last=last)
        return replace(point, last=last)

    def _each(self, nodes: Iterable[ast.expr], point: Point) -> Point:
        for one in nodes:
            point = self._expression(one, point)
        return point


def _last(points: Iterable[Point]) -> frozenset[int | None]:
    return frozenset[int | None]().union(*(one.last for one in points))


def _children(node: ast.expr) -> Iterable[ast.expr]:
    """The parts of an expression, with those in keywords and formats."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.keyword):
            yield child.value
