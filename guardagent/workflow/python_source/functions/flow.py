"""The order of the calls of a function, and the calls that come after human approval."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from guardagent.workflow.python_source.paths import BranchChoice, PathWalker
from guardagent.workflow.python_source.values import FunctionTree


@dataclass(frozen=True)
class FlowPoint:
    """A point in a function.

    Attributes:
        after_approval: every path to this point asks for human approval.
        unconditional: every run of the function reaches this point, unless it raises.
        last: the marked calls that can be the last one before this point; None is the beginning of the function.
    """

    after_approval: bool = False
    unconditional: bool = True
    last: frozenset[int | None] = frozenset({None})


class Flow(PathWalker[FlowPoint]):
    """Follows the paths through a function.

    Args:
        asks: whether a call always asks for human approval.
        marks: the calls whose order is recorded.

    Attributes:
        calls: the point of each call, by the identity of its node.
        exits: the points where the function returns or ends.
        returns: by the identity of a return statement, whether every path to it asks for human approval.
        order: pairs of marked calls that can follow each other, by the identities of their nodes.
    """

    def __init__(
        self,
        tree: FunctionTree,
        asks: Callable[[ast.Call], bool],
        marks: Callable[[ast.Call], bool] = lambda _call: False,
    ) -> None:
        super().__init__()
        self._asks, self._marks = asks, marks
        self.calls: dict[int, FlowPoint] = {}
        self.returns: dict[int, bool] = {}
        self.order: set[tuple[int | None, int]] = set()
        self.exits = self.function(tree, None, FlowPoint())

    @property
    def always_asks(self) -> bool:
        """Whether every run that does not raise asks for human approval."""
        return bool(self.exits) and all(point.after_approval for point in self.exits)

    def join(self, before: FlowPoint, ends: list[FlowPoint], *, whole: bool) -> FlowPoint:
        """Joins points: approval counts only if it is on every path."""
        last = frozenset[int | None]().union(*(one.last for one in ends))
        return FlowPoint(all(one.after_approval for one in ends), before.unconditional and whole, last)

    def loop_state(self, begin: FlowPoint, end: FlowPoint, rounds: int) -> FlowPoint | None:  # noqa: ARG002 - repeats until nothing changes
        return None if end.last <= begin.last else replace(begin, last=begin.last | end.last)

    def after_choice(self, choice: BranchChoice, state: FlowPoint) -> FlowPoint:  # noqa: ARG002 - for any choice
        return replace(state, unconditional=False)

    def on_return(self, node: ast.Return, state: FlowPoint) -> None:
        self.returns[id(node)] = state.after_approval and self.returns.get(id(node), True)

    def after_call(self, call: ast.Call, state: FlowPoint) -> FlowPoint:
        before = self.calls.get(id(call), replace(state, unconditional=False))
        self.calls[id(call)] = FlowPoint(
            before.after_approval and state.after_approval, before.unconditional or state.unconditional
        )
        after_approval = state.after_approval or self._asks(call)
        if not self._marks(call):
            return replace(state, after_approval=after_approval)
        self.order |= {(last, id(call)) for last in state.last}
        after = replace(state, after_approval=after_approval, last=frozenset({id(call)}))
        self.on_raise_point(after)
        return after
