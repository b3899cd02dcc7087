"""The paths through a function: in what order it comes to some calls, and where a person has been asked before."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, replace

from guardagent.workflow.python_source.evaluation.values import FunctionTree
from guardagent.workflow.python_source.functions.paths import BranchChoice, PathWalker


@dataclass(frozen=True)
class FlowPoint:
    """A place in a run of a function.

    Attributes:
        asked: every path that leads here has asked a person.
        sure: every run of the function comes here, unless it raises.
        last: the marked calls that a run can have come to last; None stands for the function's beginning.
    """

    after_approval: bool = False
    unconditional: bool = True
    last: frozenset[int | None] = frozenset({None})


class Flow(PathWalker[FlowPoint]):
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
        self.calls: dict[int, FlowPoint] = {}
        self.returns: dict[int, bool] = {}
        self.order: set[tuple[int | None, int]] = set()
        self.exits = self.function(tree, None, FlowPoint())

    @property
    def always_asks(self) -> bool:
        """Every run that does not raise has asked a person by its end."""
        return bool(self.exits) and all(point.after_approval for point in self.exits)

    def join(self, before: FlowPoint, ends: list[FlowPoint], *, whole: bool) -> FlowPoint:
        """A person has been asked if on each of the paths."""
        last = frozenset[int | None]().union(*(one.last for one in ends))
        return FlowPoint(all(one.after_approval for one in ends), before.unconditional and whole, last)

    def loop_state(self, begin: FlowPoint, end: FlowPoint, rounds: int) -> FlowPoint | None:  # noqa: ARG002 - as often as brings anything
        return None if end.last <= begin.last else replace(begin, last=begin.last | end.last)

    def after_choice(self, choice: BranchChoice, state: FlowPoint) -> FlowPoint:  # noqa: ARG002 - whatever it is
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
