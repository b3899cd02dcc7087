"""The paths through a function: in what order it comes to some calls, and where a person has been asked before."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from guardagent.workflow.python_source.evaluation.values import FunctionTree
from guardagent.workflow.python_source.functions.paths import Choice, Walk


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


class Flow(Walk[Point]):
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

    def __init__(
        self,
        tree: FunctionTree,
        asks: Callable[[ast.Call], bool],
        marks: Callable[[ast.Call], bool] = lambda _call: False,
    ) -> None:
        super().__init__()
        self._asks, self._marks = asks, marks
        self.calls: dict[int, Point] = {}
        self.returns: dict[int, bool] = {}
        self.order: set[tuple[int | None, int]] = set()
        self.exits = self.function(tree, None, Point())

    @property
    def always_asks(self) -> bool:
        """Every run that does not raise has asked a person by its end."""
        return bool(self.exits) and all(point.asked for point in self.exits)

    def joined(self, before: Point, ends: list[Point], *, whole: bool) -> Point:
        """A person has been asked if on each of the paths."""
        last = frozenset[int | None]().union(*(one.last for one in ends))
        return Point(all(one.asked for one in ends), before.sure and whole, last)

    def again(self, begin: Point, end: Point, rounds: int) -> Point | None:  # noqa: ARG002 - as often as brings anything
        return None if end.last <= begin.last else replace(begin, last=begin.last | end.last)

    def decided(self, choice: Choice, state: Point) -> Point:  # noqa: ARG002 - whatever it is
        return replace(state, sure=False)

    def returned(self, node: ast.Return, state: Point) -> None:
        self.returns[id(node)] = state.asked and self.returns.get(id(node), True)

    def called(self, call: ast.Call, state: Point) -> Point:
        before = self.calls.get(id(call), replace(state, sure=False))
        self.calls[id(call)] = Point(before.asked and state.asked, before.sure or state.sure)
        asked = state.asked or self._asks(call)
        if not self._marks(call):
            return replace(state, asked=asked)
        self.order |= {(last, id(call)) for last in state.last}
        after = replace(state, asked=asked, last=frozenset({id(call)}))
        self.reached(after)
        return after
