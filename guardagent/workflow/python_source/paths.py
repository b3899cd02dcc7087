"""Follows the paths through code in execution order: branches, loops, exceptions and jumps.

This is an abstract interpretation: a state describes all runs that reach a point. A subclass defines the states by a
few methods: how to join states where paths meet, and the effect of a choice or a call. The walker takes every branch,
and repeats a loop until it finds no new state. None stands for an unreachable point.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from guardagent.workflow.python_source.scopes import Comprehension, LoopScope
from guardagent.workflow.python_source.values import FunctionTree, NameScope

S = TypeVar("S")
Loop = ast.For | ast.AsyncFor | ast.While


class BranchChoice(NamedTuple):
    """One branch of a choice.

    Attributes:
        node: the statement or expression that chooses.
        holds: the condition holds: the branch is taken, the loop continues, or the body does not raise.
        first: for a loop, it is the first round.
        case: for a `match`, the case that is taken; None if no case is.
    """

    node: ast.AST
    holds: bool
    first: bool = False
    case: ast.match_case | None = None


@dataclass
class Jumps(Generic[S]):
    """The states in which control leaves a block early."""

    returns: list[S] = field(default_factory=list)
    breaks: list[S] = field(default_factory=list)
    continues: list[S] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.returns) + len(self.breaks) + len(self.continues)


class PathWalker(ABC, Generic[S]):
    """Walks through code with a state."""

    def __init__(self, scope: NameScope | None = None) -> None:
        self.scope = scope
        self.jumps = Jumps[S]()
        self._tries: list[list[S]] = []

    # Methods for subclasses.

    @abstractmethod
    def join(self, before: S, ends: list[S], *, whole: bool) -> S:
        """Joins the states of paths that part at `before`; `whole` if none of them leaves early."""

    @abstractmethod
    def loop_state(self, begin: S, end: S, rounds: int) -> S | None:
        """Returns the state at the beginning of another round of a loop; None if it would find nothing new."""

    def after_choice(self, choice: BranchChoice, state: S) -> S | None:  # noqa: ARG002 - for subclasses
        """Returns the state after a choice; None if the choice is impossible."""
        return state

    def exception_state(self, before: S, reached: list[S]) -> S:
        """Returns the state in which an exception leaves code that can be in some states."""
        return self.join(before, [before, *reached], whole=False)

    def uncaught(self, raised: S) -> S | None:
        """Returns the state of `finally` after an uncaught exception; None to skip this path."""
        return raised

    def after_call(self, call: ast.Call, state: S) -> S | None:  # noqa: ARG002 - for subclasses
        """Returns the state after a call, whose arguments are already evaluated."""
        return state

    def matters(self, code: Sequence[ast.AST]) -> bool:  # noqa: ARG002 - for subclasses
        """Whether to walk through some optional statements or expressions."""
        return True

    def on_return(self, node: ast.Return, state: S) -> None:
        """Handles a return statement."""

    def on_raise_point(self, state: S) -> None:
        """Records a state in which an exception can be raised."""
        for try_states in self._tries:
            try_states.append(state)

    # Functions and blocks.

    def function(self, tree: FunctionTree, scope: NameScope | None, state: S) -> list[S]:
        """Walks through a function, and returns the states at its ends."""
        jumps = Jumps[S]()
        with self.inside(scope), self.jumping(jumps):
            body = self.expression(tree.body, state) if isinstance(tree, ast.Lambda) else self.block(tree.body, state)
        return [*([] if body is None else [body]), *jumps.returns]

    @property
    def here(self) -> NameScope:
        """The scope of the current code."""
        assert self.scope is not None
        return self.scope

    @contextmanager
    def inside(self, scope: NameScope | None) -> Iterator[None]:
        """Changes the scope for the code of a block."""
        before, self.scope = self.scope, scope
        yield
        self.scope = before

    @contextmanager
    def jumping(self, jumps: Jumps[S]) -> Iterator[None]:
        before, self.jumps = self.jumps, jumps
        yield
        self.jumps = before

    def block(self, body: Iterable[ast.stmt], state: S | None) -> S | None:
        """Walks through statements; returns None if no path reaches their end."""
        for statement in body:
            if state is None:
                return None
            state = self.statement(statement, state)
        return state

    def statement(self, node: ast.stmt, state: S) -> S | None:
        visit = getattr(self, f"_{type(node).__name__.lower()}", self._plain)
        result: S | None = visit(node, state)
        return result

    def _plain(self, node: ast.AST, state: S) -> S | None:
        return self._each(
            (child_node for child_node in ast.iter_child_nodes(node) if isinstance(child_node, ast.expr)), state
        )

    def _functiondef(self, _node: ast.stmt, state: S) -> S:
        return state

    _asyncfunctiondef = _classdef = _functiondef

    def _return(self, node: ast.Return, state: S) -> None:
        end = self.expression(node.value, state)
        if end is not None:
            self.on_return(node, end)
            self.jumps.returns.append(end)

    def _raise(self, node: ast.Raise, state: S) -> None:
        self.expression(node.exc, state)

    def _break(self, _node: ast.Break, state: S) -> None:
        self.jumps.breaks.append(state)

    def _continue(self, _node: ast.Continue, state: S) -> None:
        self.jumps.continues.append(state)

    # Branches.

    def _if(self, node: ast.If, state: S) -> S | None:
        begin = self.expression(node.test, state)
        if begin is None or not self.matters([*node.body, *node.orelse]):
            return begin
        if isinstance(node.test, ast.Constant):
            return self.block(node.body if node.test.value else node.orelse, begin)
        left = len(self.jumps)
        ways = [(BranchChoice(node, holds=True), node.body), (BranchChoice(node, holds=False), node.orelse)]
        return self._merged(begin, [self.block(body, self.after_choice(choice, begin)) for choice, body in ways], left)

    def _match(self, node: ast.Match, state: S) -> S | None:
        begin = now = self.expression(node.subject, state)
        if (
            begin is None
            or now is None
            or not self.matters([statement for case in node.cases for statement in case.body])
        ):
            return begin
        left, ends = len(self.jumps), list[S | None]()
        for case in node.cases:
            entered = self.after_choice(BranchChoice(node, holds=True, case=case), now)
            guarded = entered if entered is None else self.expression(case.guard, entered)
            ends.append(self.block(case.body, guarded))
            now = self._merged(now, [now, guarded], left) if case.guard is not None else now
            if now is None:
                return None
        if not takes_all(node.cases[-1]):
            ends.append(self.after_choice(BranchChoice(node, holds=False), now))
        return self._merged(begin, ends, left)

    def _merged(self, before: S, ends: Iterable[S | None], left: int) -> S | None:
        """Joins paths; `left` is the number of early exits before them."""
        open_ends = [end for end in ends if end is not None]
        return self.join(before, open_ends, whole=len(self.jumps) == left) if open_ends else None

    # Loops.

    def _while(self, node: ast.While, state: S) -> S | None:
        return self._looped(node, node.test, self.expression(node.test, state))

    def _for(self, node: ast.For | ast.AsyncFor, state: S) -> S | None:
        return self._looped(node, None, self.expression(node.iter, state))

    def _asyncfor(self, node: ast.AsyncFor, state: S) -> S | None:
        return self._for(node, state)

    def _looped(self, node: Loop, test: ast.expr | None, begin: S | None) -> S | None:
        matters = begin is not None and self.matters([*node.body, *node.orelse])
        return self.loop(node, test, begin) if begin is not None and matters else begin

    def loop(self, node: Loop, test: ast.expr | None, state: S) -> S | None:
        """Walks through a loop round by round; only a break leaves an endless loop."""
        endless = isinstance(test, ast.Constant) and bool(test.value)
        left, ended, inner = len(self.jumps), list[S | None](), Jumps(self.jumps.returns)
        begin: S | None = state
        rounds = 0
        while begin is not None:
            if not endless:
                ended.append(self.after_choice(BranchChoice(node, holds=False, first=not rounds), begin))
            entering = begin if endless else self.after_choice(BranchChoice(node, holds=True, first=not rounds), begin)
            done, rounds = self._round(node, inner, begin, entering), rounds + 1
            end = None if done is None else self.expression(test, done)
            begin = None if end is None else self.loop_state(begin, end, rounds)
            if begin is None and end is not None and not endless:
                ended.append(self.after_choice(BranchChoice(node, holds=False), end))
        to_else = self._merged(state, ended, left - len(inner.breaks))  # a break skips the `else` block
        last = self.block(node.orelse, to_else)
        return self._merged(state, [last, *inner.breaks], left)

    def _round(self, node: Loop, inner: Jumps[S], begin: S, entering: S | None) -> S | None:
        inner.continues = []
        with self.jumping(inner):
            end = self.block(node.body, entering)
        return self._merged(begin, [end, *inner.continues], -1)

    # Exceptions.

    def _with(self, node: ast.With | ast.AsyncWith, state: S) -> S | None:
        now = self._each((item.context_expr for item in node.items), state)
        return self.block(node.body, now)

    _asyncwith = _with

    def _try(self, node: ast.Try, state: S) -> S | None:
        left, inner = len(self.jumps), Jumps[S]()
        with self.jumping(inner):
            after, raised = self._guarded(node, state)
        self.block(node.finalbody, raised if raised is None else self.uncaught(raised))
        for before, jumped in ((self.jumps.returns, inner.returns), (self.jumps.breaks, inner.breaks),
                               (self.jumps.continues, inner.continues)):  # fmt: skip
            before += [end for jump_state in jumped if (end := self.block(node.finalbody, jump_state)) is not None]
        met = self._merged(state, after, left)
        return self.block(node.finalbody, met)

    _trystar = _try

    def _guarded(self, node: ast.Try, state: S) -> tuple[list[S | None], S | None]:
        """Walks through the body and the handlers; returns their end states, and the state of an exception."""
        self._tries.append([])
        inside = self.after_choice(BranchChoice(node, holds=True), state) if node.handlers else state
        body = self.block(node.body, inside)
        raised = self.after_choice(BranchChoice(node, holds=False), self.exception_state(state, self._tries.pop()))
        handled = [self.block(handler.body, raised) for handler in node.handlers]
        return [self.block(node.orelse, body), *handled], raised

    # Expressions, in evaluation order.

    def expression(self, node: ast.expr | None, state: S) -> S | None:
        match node:
            case None | ast.Lambda():
                return state
            case ast.IfExp(test=test, body=body, orelse=orelse):
                begin = self.expression(test, state)
                if begin is None or not self.matters([body, orelse]):
                    return begin
                return self._either(node, body, orelse, begin)
            case ast.BoolOp(values=[first, *rest]):
                return self._short_circuit(node, first, rest, state)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self._comprehension(node, state)
            case ast.Call():
                begin = self._each(_children(node), state)
                return None if begin is None else self.after_call(node, begin)
        return self._each(_children(node), state)

    def _each(self, nodes: Iterable[ast.expr], state: S) -> S | None:
        now: S | None = state
        for node in nodes:
            now = None if now is None else self.expression(node, now)
        return now

    def _either(self, node: ast.IfExp, body: ast.expr, orelse: ast.expr, begin: S) -> S | None:
        ways = [
            (self.after_choice(BranchChoice(node, holds=holds), begin), branch)
            for holds, branch in ((True, body), (False, orelse))
        ]
        return self._merged(
            begin, [None if way is None else self.expression(part, way) for way, part in ways], len(self.jumps)
        )

    def _short_circuit(self, node: ast.BoolOp, first: ast.expr, rest: list[ast.expr], state: S) -> S | None:
        """Walks through the operands of a short-circuit operator."""
        begin = now = self.expression(first, state)
        if begin is None or not self.matters(rest):
            return begin
        ends = [now]
        for operand in rest:
            entered = None if now is None else self.after_choice(BranchChoice(node, holds=True), now)
            now = None if entered is None else self.expression(operand, entered)
            ends.append(now)
        return self._merged(begin, ends, len(self.jumps))

    def _comprehension(self, node: Comprehension, state: S) -> S | None:
        first, *others = [expression for part in node.generators for expression in (part.iter, *part.ifs)]
        parts = [*others, *([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt])]
        begin = start = self.expression(first, state)
        ends, rounds = [begin], 0
        with self.inside(LoopScope(node, self.scope)):
            while begin is not None and self.matters(parts):
                entering = self.after_choice(BranchChoice(node, holds=True, first=not rounds), begin)
                end = None if entering is None else self._each(parts, entering)
                ends.append(end)
                rounds += 1
                begin = None if end is None else self.loop_state(begin, end, rounds)
        return None if start is None else self._merged(start, ends, len(self.jumps))


def takes_all(case: ast.match_case) -> bool:
    """Whether a case matches any value."""
    return case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None


def ends(node: ast.stmt) -> bool:
    """Whether the code after a statement is unreachable; a context manager may swallow an exception."""
    match node:
        case ast.Return() | ast.Raise() | ast.Continue() | ast.Break():
            return True
        case ast.If(body=body, orelse=orelse):
            return block_ends(body) and block_ends(orelse)
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=final):
            handled = all(block_ends(handler.body) for handler in handlers)
            return block_ends(final) or (block_ends([*body, *orelse]) and handled)
        case ast.While(test=ast.Constant(value=True)):
            return not has_break(node)
        case ast.Match(cases=cases):
            return any(takes_all(case) for case in cases) and all(block_ends(case.body) for case in cases)
    return False


def block_ends(body: Iterable[ast.stmt]) -> bool:
    """Whether the end of a block is unreachable."""
    return any(map(ends, body))


def has_break(loop: ast.While) -> bool:
    """Whether a loop can end by a `break` of its own."""
    pending: list[ast.AST] = list(loop.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Break):
            return True
        pending.extend(node.orelse if isinstance(node, Loop) else ast.iter_child_nodes(node))
    return False


def _children(node: ast.expr) -> Iterator[ast.expr]:
    """Yields the parts of an expression, including keyword arguments."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.keyword):
            yield child.value
