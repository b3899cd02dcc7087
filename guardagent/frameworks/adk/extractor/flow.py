"""In which order a custom agent runs others: read from the code of its `_run_async_impl`.

Read as control flow: `async for event in AGENT.run_async(ctx)` is a step, and what stands between two steps decides
which of them follows. Where the code does something else with agents, any of them is assumed to follow any.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent.frameworks.adk.extractor.code import AdkCode, escalates
from guardagent.frameworks.adk.extractor.running import BASE, MOST_NESTED, Running
from guardagent.frameworks.adk.extractor.tools import ADK
from guardagent.frameworks.adk.extractor.walk import Walk
from guardagent.workflow.extraction.frameworks import is_a
from guardagent.workflow.extraction.regions import Entry, Exit, Region
from guardagent.workflow.model.graph import NodeKind
from guardagent.workflow.python_source.evaluation.values import Binding, Scope, Values, exactly
from guardagent.workflow.python_source.functions.bodies import look_into
from guardagent.workflow.python_source.functions.code import Called, is_method

_CLOSING = ("Aclosing", "aclosing", "closing")
_LONGEST = 60

_Front = list[Exit]
_Loop = ast.For | ast.AsyncFor | ast.While


class _UnclearError(Exception):
    """The code does with agents what is not understood; the text says what."""


def flow_region(walk: Walk, agent: Any, function: Callable[..., Any], within: tuple[str, ...]) -> Region:
    """A custom agent: a node for its own code, and the agents that it runs."""
    code = AdkCode(functools.partial(function, agent))
    node = walk.assembly.id(agent, agent.name, within)
    walk.assembly.describe(node, "passthrough", agent.name, within=within, **code.place)
    try:
        region, following = _Flow(walk, agent, code, node, within).followed()
    except _UnclearError as unclear:
        region, following = _widened(walk, agent, code, (*within, agent.name), str(unclear))
    ways = {(leave.escalated, leave.condition) for leave in region.exits if leave.node == node}
    kind: NodeKind = "human" if code.asks else "router" if len(following) + len(ways) > 1 else "passthrough"
    walk.assembly.turn(node, kind)
    if unseen := look_into(code.target).unseen:
        walk.assembly.mark(node, tools_unknown=True)
        walk.assembly.note(f"{node}: may call tools that cannot be seen: {'; '.join(unseen)}")
    if code.asks:
        walk.assembly.mark(node, asks="always" if code.always_asks else "sometimes")
    return region


def agents_held(agent: Any) -> list[Any]:
    """The agents that an agent holds: its sub-agents, and those in its attributes."""
    values = [*agent.sub_agents, *vars(agent).values(), *(getattr(agent, "__pydantic_private__", None) or {}).values()]
    flat = [each for one in values for each in (one if isinstance(one, list | tuple) else [one])]
    flat += [each for one in values if isinstance(one, dict) for each in one.values()]
    found = {id(one): one for one in flat if is_a(one, ADK, "BaseAgent") and one is not agent.parent_agent}
    return list(found.values())


def _widened(walk: Walk, agent: Any, code: AdkCode, inside: tuple[str, ...], why: str) -> tuple[Region, set[str]]:
    """Any agent that an agent holds, in any order, any number of times."""
    node = walk.assembly.id(agent, agent.name)
    walk.assembly.mark(node, widened=True)
    walk.assembly.note(f"{node}: {why}; any agent that it holds is assumed to follow at any time")
    parts = [walk.region(one, inside) for one in agents_held(agent)]
    for part in parts:
        walk.assembly.connect([Exit(node, conditional=True)], part.entries)
        walk.assembly.connect([replace(leave, escalated=False) for leave in part.exits], [Entry(node)])
    escalated = code.escalates or any(leave.escalated for part in parts for leave in part.exits)
    exits = [
        Exit(node, conditional=bool(parts)),
        *([Exit(node, conditional=True, escalated=True)] if escalated else []),
    ]
    nodes = {node, *(one for part in parts for one in part.nodes)}
    return Region((Entry(node),), tuple(exits), frozenset(nodes)), {one.node for part in parts for one in part.entries}


@dataclass
class _Jumps:
    """Where control leaves a block early."""

    returns: _Front = field(default_factory=list)
    breaks: _Front = field(default_factory=list)
    continues: _Front = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class _Named:
    """A scope in which one name is known to be one thing."""

    name: str
    value: Values
    parent: Scope | None

    def find(self, name: str) -> list[Binding]:
        return [Binding(self.value)] if name == self.name else []


@dataclass(frozen=True)
class _Test:
    """When the body of a loop is run again."""

    text: str
    otherwise: str
    may_end: bool = True
    may_skip: bool = True


class _Flow:
    """Follows the code of one custom agent; connects nothing before all of it is understood."""

    def __init__(self, walk: Walk, agent: Any, code: AdkCode, node: str, within: tuple[str, ...]) -> None:
        self._walk, self._agent, self._code, self._node, self._within = walk, agent, code, node, within
        self._running = Running(code, agent)
        self._steps: list[tuple[_Front, Region]] = []
        self._touched: set[str] = {node}
        self._closing: dict[str, tuple[ast.expr, Scope]] = {}
        self._depth = 0

    def followed(self) -> tuple[Region, set[str]]:
        """The region of the agent, and the nodes that can follow its own."""
        if self._code.body is None:
            raise _UnclearError("the source of its code is not to be had")
        jumps = _Jumps()
        last = self._block(_statements(self._code.body), [Exit(self._node)], self._code.body.scope, jumps)
        for front, region in self._steps:
            self._walk.assembly.connect(front, region.entries)
        exits = dict.fromkeys(replace(one, back=False) for one in (*last, *jumps.returns))
        own = (region for front, region in self._steps if any(leave.node == self._node for leave in front))
        following = {entry.node for region in own for entry in region.entries}
        return Region((Entry(self._node),), tuple(exits), frozenset(self._touched)), following

    # Statements.

    def _block(self, block: Iterable[ast.stmt], front: _Front, scope: Scope, jumps: _Jumps) -> _Front:
        for statement in block:
            if not front:
                break
            visit = getattr(self, f"_{type(statement).__name__.lower()}", self._plain)
            result: _Front = visit(statement, front, scope, jumps)
            front = list(dict.fromkeys(result))
        return front

    def _plain(self, statement: ast.AST, front: _Front, scope: Scope, _jumps: _Jumps | None = None) -> _Front:
        """A statement without blocks: what it calls may run agents, what it yields may escalate."""
        whole = _to_their_end(statement)
        for node in _in_order(statement):
            if isinstance(node, ast.Call):
                front = self._called(node, front, scope, to_its_end=id(node) in whole)
            elif (value := escalates(node)) is not None:
                front = _escalating(front, value)
        return front

    def _functiondef(self, _statement: ast.stmt, front: _Front, _scope: Scope, _jumps: _Jumps) -> _Front:
        return front

    _asyncfunctiondef = _classdef = _functiondef

    def _called(self, call: ast.Call, front: _Front, scope: Scope, *, to_its_end: bool) -> _Front:
        """A call: a helper of the program is read as if it stood here."""
        agents = self._running.run_by(call, scope)
        helpers = self._running.helpers(call, scope) if agents is None else []
        if is_method(call, "run_node") and agents is None:
            agents = self._running.values(call.args[0] if call.args else None, scope)
        awaits = agents is not None or any(isinstance(one.function.tree, ast.AsyncFunctionDef) for one in helpers)
        if awaits and not to_its_end:
            raise _UnclearError(f"line {call.lineno}: {_short(call.func)} is not simply run to its end")
        if agents is not None:
            return self._run(agents, front, call)
        if self._running.hands_on(call, scope):
            raise _UnclearError(f"line {call.lineno}: what {_short(call.func)} does with agents is not known")
        for helper in helpers:
            front = self._inline(helper, front)
        return front

    def _return(self, statement: ast.Return, front: _Front, scope: Scope, jumps: _Jumps) -> _Front:
        jumps.returns += self._plain(statement, front, scope)
        return []

    def _raise(self, _statement: ast.Raise, _front: _Front, _scope: Scope, _jumps: _Jumps) -> _Front:
        return []

    def _break(self, _statement: ast.Break, front: _Front, _scope: Scope, jumps: _Jumps) -> _Front:
        jumps.breaks += front
        return []

    def _continue(self, _statement: ast.Continue, front: _Front, _scope: Scope, jumps: _Jumps) -> _Front:
        jumps.continues += front
        return []

    def _if(self, statement: ast.If, front: _Front, scope: Scope, jumps: _Jumps) -> _Front:
        front = self._plain(statement.test, front, scope)
        if not self._matters([*statement.body, *statement.orelse], scope):
            return front
        if isinstance(statement.test, ast.Constant):
            return self._block(statement.body if statement.test.value else statement.orelse, front, scope, jumps)
        body = self._block(statement.body, _decided(front, _short(statement.test)), scope, jumps)
        return body + self._block(statement.orelse, _decided(front, _negated(statement.test)), scope, jumps)

    def _match(self, statement: ast.Match, front: _Front, scope: Scope, jumps: _Jumps) -> _Front:
        front = self._plain(statement.subject, front, scope)
        if not self._matters([one for case in statement.cases for one in case.body], scope):
            return front
        subject, result = _short(statement.subject), list[Exit]()
        for case in statement.cases:
            whole = case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
            text = f"{subject} is anything else" if whole else f"{subject} is {_short(case.pattern)}"
            result += self._block(case.body, _decided(front, text), scope, jumps)
            if whole:
                return result
        return result + _decided(front, f"{subject} is anything else")

    def _while(self, statement: ast.While, front: _Front, scope: Scope, jumps: _Jumps) -> _Front:
        front = self._plain(statement.test, front, scope)
        if not self._matters([*statement.body, *statement.orelse], scope):
            return front
        if isinstance(statement.test, ast.Constant) and statement.test.value:
            return self._repeated(statement, statement.body, front, scope, jumps, _Test("", "", may_end=False))
        test = _Test(_short(statement.test), _negated(statement.test))
        return self._repeated(statement, [*statement.body, ast.Expr(statement.test)], front, scope, jumps, test)

    def _for(self, statement: ast.For | ast.AsyncFor, front: _Front, scope: Scope, jumps: _Jumps) -> _Front:
        front = self._plain(statement.iter, front, scope)
        if not self._matters([*statement.body, *statement.orelse], scope):
            return front
        items, name = self._running.ordered(statement.iter, scope), _loop_name(statement)
        if items is not None and name:
            return self._unrolled(statement, name, items, front, scope, jumps)
        text = f"{_short(statement.target)} in {_short(statement.iter)}"
        skips = not self._at_least_once(statement.iter, scope)
        return self._repeated(
            statement, statement.body, front, scope, jumps, _Test(text, f"after {text}", may_skip=skips)
        )

    def _unrolled(
        self, statement: _Loop, name: str, items: list[Any], front: _Front, scope: Scope, jumps: _Jumps
    ) -> _Front:
        """A loop over agents in a known order: the body for each of them."""
        broken: _Front = []
        for item in items:
            inner = _Jumps(jumps.returns)
            front = self._block(statement.body, front, _Named(name, exactly(item), scope), inner) + inner.continues
            broken += inner.breaks
        return self._block(statement.orelse, front, scope, jumps) + broken

    def _repeated(
        self, loop: _Loop, body: Sequence[ast.stmt], front: _Front, scope: Scope, jumps: _Jumps, test: _Test
    ) -> _Front:
        """A loop: its body once from before it, and once from its own end."""
        inner = _Jumps(jumps.returns)
        entering = _decided(front, test.text) if test.may_end and test.may_skip else front
        first = self._block(body, entering, scope, inner) + inner.continues
        again = [replace(one, back=True) for one in (_decided(first, test.text) if test.may_end else first)]
        last = self._block(body, list(dict.fromkeys(again)), scope, inner) + inner.continues
        ended = _decided([*first, *last], test.otherwise) if test.may_end else []
        skipped = _decided(front, test.otherwise) if test.may_end and test.may_skip else []
        done = list(dict.fromkeys(replace(one, back=False) for one in (*ended, *skipped)))
        broken = [replace(one, back=False) for one in inner.breaks]
        return self._block(loop.orelse, done, scope, jumps) + broken

    def _asyncfor(self, statement: ast.AsyncFor, front: _Front, scope: Scope, jumps: _Jumps) -> _Front:
        """The events of an agent, or of a helper that runs agents."""
        source, where = self._source(statement.iter, scope)
        if not isinstance(source, ast.Call):
            return self._for(statement, front, scope, jumps)
        before = set(self._touched)
        if (agents := self._running.run_by(source, where)) is not None:
            front = self._run(agents, front, source)
        elif helpers := self._running.helpers(source, where):
            front = [leave for helper in helpers for leave in self._inline(helper, front)]
        else:
            return self._for(statement, front, scope, jumps)
        return self._with_each_event(statement, front, self._touched - before, scope, jumps)

    def _with_each_event(
        self, statement: ast.AsyncFor, front: _Front, inside: set[str], scope: Scope, jumps: _Jumps
    ) -> _Front:
        """What is done with each event: control can leave while the agent is still running."""
        if self._running.runs(statement.body, scope):
            raise _UnclearError(f"line {statement.lineno}: it runs an agent while another one is running")
        for node in (node for one in statement.body for node in ast.walk(one)):
            if (value := escalates(node)) is not None:
                front = _escalating(front, value)
        if not _leaves(statement.body):
            return front
        inner, nodes = _Jumps(jumps.returns), inside or {one.node for one in front}
        self._block(statement.body, [Exit(node, conditional=True) for node in sorted(nodes)], scope, inner)
        return [*_decided(front, ""), *inner.breaks]

    def _with(self, statement: ast.With | ast.AsyncWith, front: _Front, scope: Scope, jumps: _Jumps) -> _Front:
        for item in statement.items:
            source, name = item.context_expr, item.optional_vars
            closed = _closed(source)
            if closed is not None and isinstance(name, ast.Name):
                self._closing[name.id] = (closed, scope)
            else:
                front = self._plain(source, front, scope)
        return self._block(statement.body, front, scope, jumps)

    _asyncwith = _with

    def _try(self, statement: ast.Try, front: _Front, scope: Scope, jumps: _Jumps) -> _Front:
        before = set(self._touched)
        done = self._block([*statement.body, *statement.orelse], front, scope, jumps)
        reached = [Exit(node, conditional=True) for node in sorted(self._touched - before)]
        failed = _decided([*front, *reached], "an exception")
        for handler in statement.handlers:
            done = done + self._block(handler.body, failed, scope, jumps)
        return self._block(statement.finalbody, list(dict.fromkeys(done)), scope, jumps)

    _trystar = _try

    # Steps.

    def _run(self, agents: Values, front: _Front, call: ast.Call) -> _Front:
        """Runs one of some agents."""
        agents = self._code.shown(agents)
        known = [one for one in agents.known if one is BASE or callable(one) or is_a(one, ADK, "BaseNode", "BaseTool")]
        if not known or not agents.complete or len(known) < len(agents.known):
            raise _UnclearError(f"line {call.lineno}: which agent {_short(call.func)} runs is not known")
        result: _Front = []
        for one in known:
            before = _decided(front, f"{_short(call.func)} is of {_label(one)}") if len(known) > 1 else front
            result += self._step(one, before)
        return result

    def _step(self, agent: Any, front: _Front) -> _Front:
        inside = (*self._within, self._agent.name)
        region = self._walk.structure(self._agent, self._within) if agent is BASE else self._walk.region(agent, inside)
        self._steps.append((front, region))
        self._touched |= region.nodes
        exits = [replace(leave, escalated=leave.escalated or one) for leave in region.exits for one in _states(front)]
        return [*exits, *(front if region.empty else [])]

    def _inline(self, helper: Called, front: _Front) -> _Front:
        if self._depth >= MOST_NESTED:
            raise _UnclearError("its helpers call each other")
        self._depth += 1
        jumps = _Jumps()
        last = self._block(_statements(helper), front, helper.scope, jumps)
        self._depth -= 1
        return list(dict.fromkeys([*last, *jumps.returns]))

    def _source(self, expression: ast.expr, scope: Scope) -> tuple[ast.expr, Scope]:
        """What is iterated over, behind a name that `Aclosing` gives it."""
        if isinstance(expression, ast.Name) and expression.id in self._closing:
            return self._closing[expression.id]
        closed = _closed(expression)
        return (expression if closed is None else closed), scope

    def _matters(self, block: Sequence[ast.stmt], scope: Scope) -> bool:
        """Whether some statements have anything to do with the order of agents."""
        nodes = [node for statement in block for node in ast.walk(statement)]
        if _leaves(block) or any(escalates(node) is not None for node in nodes):
            return True
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        return self._running.runs(block, scope) or any(self._running.hands_on(call, scope) for call in calls)

    def _at_least_once(self, expression: ast.expr, scope: Scope) -> bool:
        """Whether a loop is over a range that is not empty."""
        match expression:
            case ast.Call(func=ast.Name(id="range"), args=[most]):
                values = self._code.evaluator.value(most, scope)
                numbers = [one for one in values.known if isinstance(one, int) and one > 0]
                return values.complete and bool(numbers) and len(numbers) == len(values.known)
        return False


def _statements(body: Called) -> Sequence[ast.stmt]:
    tree = body.function.tree
    return [ast.Expr(tree.body)] if isinstance(tree, ast.Lambda) else tree.body


def _states(front: _Front) -> set[bool]:
    """Whether a run that comes from here has escalated, or not, or either."""
    return {one.escalated for one in front}


def _label(agent: Any) -> str:
    return str(getattr(agent, "name", getattr(agent, "__name__", "another")))


def _decided(front: _Front, text: str) -> _Front:
    """The same ways out, each only where something is so; the first thing that was decided is what is said."""
    return [replace(one, conditional=True, condition=one.condition or text) for one in front]


def _escalating(front: _Front, value: ast.expr) -> _Front:
    """From here on the loop around is left: surely, or perhaps."""
    left = [replace(one, escalated=True) for one in front]
    return left if isinstance(value, ast.Constant) else [*front, *left]


def _leaves(block: Iterable[ast.AST]) -> bool:
    """Whether control can leave a block early."""
    jumps = (ast.Return, ast.Break, ast.Continue, ast.Raise)
    return any(isinstance(node, jumps) for one in block for node in ast.walk(one))


def _in_order(tree: ast.AST) -> Iterator[ast.AST]:
    """The parts of a statement, what is worked out first before what uses it; functions in it are left out."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, ast.Lambda):
            yield from _in_order(child)
    yield tree


def _to_their_end(statement: ast.AST) -> set[int]:
    """The calls that are awaited, or iterated over, as they stand."""
    nodes = list(ast.walk(statement))
    awaited = {id(node.value) for node in nodes if isinstance(node, ast.Await)}
    return awaited | {id(node.iter) for node in nodes if isinstance(node, ast.comprehension) and node.is_async}


def _loop_name(statement: ast.For | ast.AsyncFor) -> str:
    """The name that stands for each agent; behind a number where the loop counts."""
    target = statement.target
    match statement.iter, target:
        case ast.Call(func=ast.Name(id="enumerate")), ast.Tuple(elts=[_, second]):
            target = second
    return target.id if isinstance(target, ast.Name) else ""


def _closed(expression: ast.expr) -> ast.expr | None:
    """What `Aclosing` is around; None where it is something else."""
    if not isinstance(expression, ast.Call) or not expression.args:
        return None
    function = expression.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return expression.args[0] if name in _CLOSING else None


def _negated(test: ast.expr) -> str:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _short(test.operand)
    return f"not ({_short(test)})"


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
