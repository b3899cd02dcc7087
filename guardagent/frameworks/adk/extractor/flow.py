"""Control flow in the code of ADK: the order in which a custom agent runs other agents, and the routes of a node.

`async for event in AGENT.run_async(ctx)` is a step; the code between two steps in `_run_async_impl` decides which of
them follows. If the code does anything else with agents, any agent is assumed to follow any other. `Traversal` is
how the parts of an extraction request the regions of other agents.

The routes are those that a node of a workflow can take, read from its code.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from guardagent.frameworks.adk.extractor.agents import ADK, BASE, MOST_NESTED, AdkCode, AgentCalls, escalates
from guardagent.workflow.extraction import Assembly, Region, RegionEntry, RegionExit, is_a
from guardagent.workflow.model.graph import EDGES, TOOLS, NodeKind
from guardagent.workflow.python_source.bodies import summarize
from guardagent.workflow.python_source.paths import BranchChoice, Jumps, Loop, PathWalker, takes_all
from guardagent.workflow.python_source.scopes import statements
from guardagent.workflow.python_source.steps import CalledFunction, FunctionCode, is_method
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Binding,
    CallResult,
    NameScope,
    Values,
    exactly,
    is_result_of,
)
from guardagent.workflow.python_source.values import Sequence as Items

_CLOSING = ("Aclosing", "aclosing", "closing")
_LONGEST = 60
_Front = tuple[RegionExit, ...]


@dataclass(frozen=True)
class Traversal:
    """Visits agents and workflows, each once.

    Attributes:
        region: returns the region of an agent, a node of a workflow, a tool or a function, inside some others.
        structure: returns the region of an agent, as its framework class runs it.
        call: adds a call by a node of a target with a name; the node continues when the callee returns.
    """

    assembly: Assembly
    region: Callable[[Any, tuple[str, ...]], Region]
    structure: Callable[[Any, tuple[str, ...]], Region]
    call: Callable[[str, str, Any], None]


class _UnclearError(Exception):
    """The code uses agents in an unsupported way; the message describes it."""


def flow_region(traversal: Traversal, agent: Any, function: Callable[..., Any], within: tuple[str, ...]) -> Region:
    """The region of a custom agent: a node for its own code, and the agents that it runs."""
    code = AdkCode(functools.partial(function, agent))
    node = traversal.assembly.id(agent, agent.name, within)
    traversal.assembly.describe(node, "passthrough", agent.name, within=within, **code.place)
    try:
        region, following = _AgentFlow(traversal, agent, code, node, within).followed()
    except _UnclearError as unclear:
        region, following = _widened(traversal, agent, code, (*within, agent.name), str(unclear))
    outcomes = {(leave.escalated, leave.condition) for leave in region.exits if leave.node == node}
    kind: NodeKind = "human" if code.asks else "router" if len(following) + len(outcomes) > 1 else "passthrough"
    traversal.assembly.set_kind(node, kind)
    if unseen := summarize(code.target).opaque_calls:
        traversal.assembly.mark_unknown(node, TOOLS, *unseen)
    if code.asks:
        traversal.assembly.mark(node, asks="always" if code.always_asks else "sometimes")
    return region


def agents_held(agent: Any) -> list[Any]:
    """The agents that an agent holds: its sub-agents, and those in its attributes."""
    values = [*agent.sub_agents, *vars(agent).values(), *(getattr(agent, "__pydantic_private__", None) or {}).values()]
    flat = [each for value in values for each in (value if isinstance(value, list | tuple) else [value])]
    flat += [each for value in values if isinstance(value, dict) for each in value.values()]
    agents = {
        id(member): member for member in flat if is_a(member, ADK, "BaseAgent") and member is not agent.parent_agent
    }
    return list(agents.values())


def _widened(
    traversal: Traversal, agent: Any, code: AdkCode, inside: tuple[str, ...], reason: str
) -> tuple[Region, set[str]]:
    """The region in which the agents held follow in any order, any number of times."""
    node = traversal.assembly.id(agent, agent.name)
    why = f"{reason}; any agent that it holds is assumed to follow at any time"
    traversal.assembly.mark_unknown(node, EDGES, why)
    parts = [traversal.region(held_agent, inside) for held_agent in agents_held(agent)]
    for part in parts:
        traversal.assembly.connect([RegionExit(node, conditional=True)], part.entries)
        traversal.assembly.connect([replace(leave, escalated=False) for leave in part.exits], [RegionEntry(node)])
    escalated = code.escalates or any(leave.escalated for part in parts for leave in part.exits)
    exits = [
        RegionExit(node, conditional=bool(parts)),
        *([RegionExit(node, conditional=True, escalated=True)] if escalated else []),
    ]
    nodes = {node, *(node for part in parts for node in part.nodes)}
    return Region((RegionEntry(node),), tuple(exits), frozenset(nodes)), {
        entry.node for part in parts for entry in part.entries
    }


@dataclass(frozen=True, eq=False)
class _NamedScope:
    """A scope that binds one name to known values."""

    name: str
    value: Values
    parent: NameScope | None

    def find(self, name: str) -> list[Binding]:
        return [Binding(self.value)] if name == self.name else []


class _AgentFlow(PathWalker[_Front]):
    """Follows the control flow of one custom agent; connects nothing before all of it is understood."""

    def __init__(self, traversal: Traversal, agent: Any, code: AdkCode, node: str, within: tuple[str, ...]) -> None:
        super().__init__()
        self._traversal, self._agent, self._code, self._node, self._within = traversal, agent, code, node, within
        self._agent_calls = AgentCalls(code, agent)
        self._steps: list[tuple[_Front, Region]] = []
        self._region_nodes: set[str] = {node}
        self._closing: dict[str, tuple[ast.expr, NameScope]] = {}
        self._consumed: set[int] = set()
        self._runs_first: list[bool] = []  # of each try: whether it begins with a run of an agent
        self._depth = 0

    def followed(self) -> tuple[Region, set[str]]:
        """The region of the agent, and the nodes that can follow its own node."""
        if self._code.body is None:
            raise _UnclearError("the source of its code is missing")
        ends = self._enter(self._code.body, (RegionExit(self._node),))
        for front, region in self._steps:
            self._traversal.assembly.connect(front, region.entries)
        exits = dict.fromkeys(replace(end, back=False) for end in ends or ())
        own = (region for front, region in self._steps if any(leave.node == self._node for leave in front))
        following = {entry.node for region in own for entry in region.entries}
        return Region((RegionEntry(self._node),), tuple(exits), frozenset(self._region_nodes)), following

    def _enter(self, code: CalledFunction, front: _Front) -> _Front | None:
        tree = code.function.tree
        self._consumed |= _consumed(tree)
        return _merged(self.function(tree, code.scope, front))

    def statement(self, node: ast.stmt, state: _Front) -> _Front | None:
        self._code.evaluator.resume()  # the agents that it runs may have spent the budget
        return super().statement(node, state)

    # Branches and joins.

    def join(self, before: _Front, ends: list[_Front], *, whole: bool) -> _Front:  # noqa: ARG002 - joins do not depend on it
        return _merged(ends) or ()

    def loop_state(self, begin: _Front, end: _Front, rounds: int) -> _Front | None:  # noqa: ARG002 - two rounds suffice
        return tuple(replace(leave, back=True) for leave in end) if rounds == 1 else None

    def _guarded(self, node: ast.Try, state: _Front) -> tuple[list[_Front | None], _Front | None]:
        first = node.body[0]
        source, where = self._source(first.iter) if isinstance(first, ast.AsyncFor) else (first, self.here)
        self._runs_first.append(isinstance(source, ast.Call) and self._agent_calls.run_by(source, where) is not None)
        result = super()._guarded(node, state)
        self._runs_first.pop()
        return result

    def exception_state(self, before: _Front, reached: list[_Front]) -> _Front:
        """An exception of a statement that runs an agent comes from that agent, so it has begun."""
        nodes = {leave.node for front in reached for leave in front}
        kept = () if self._runs_first[-1] and nodes else before
        return (*kept, *(RegionExit(node, conditional=True) for node in sorted(nodes)))

    def uncaught(self, raised: _Front) -> None:  # noqa: ARG002 - an exception ends the run
        return None

    def after_choice(self, choice: BranchChoice, state: _Front) -> _Front | None:
        match choice.node:
            case ast.Try() | ast.TryStar():
                return state if choice.holds else _with_condition(state, "an exception")
            case ast.For() | ast.AsyncFor() as loop if choice.first and self._at_least_once(loop.iter):
                return state if choice.holds else None
            case ast.For() | ast.AsyncFor() | ast.While() if not choice.holds:
                state = tuple(replace(leave, back=False) for leave in state)
        return _with_condition(state, _condition(choice))

    def matters(self, code: Sequence[ast.AST]) -> bool:
        """Whether code affects the order of agents."""
        nodes = [node for part in code for node in ast.walk(part)]
        if _leaves(code) or any(escalates(node) is not None for node in nodes):
            return True
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        runs = self._agent_calls.runs(code, self.here)
        return runs or any(self._agent_calls.passes_agents(call, self.here) for call in calls)

    def _at_least_once(self, expression: ast.expr) -> bool:
        """Whether a loop iterates over a nonempty range."""
        match expression:
            case ast.Call(func=ast.Name(id="range"), args=[most]):
                values = self._code.evaluator.value(most, self.here)
                numbers = [value for value in values.known if isinstance(value, int) and value > 0]
                return values.complete and bool(numbers) and len(numbers) == len(values.known)
        return False

    # Statements.

    def _assign(self, node: ast.Assign, state: _Front) -> _Front | None:
        return _escalating(self._plain(node, state), escalates(node))

    def _raise(self, _node: ast.Raise, _state: _Front) -> None:
        return None

    def _break(self, node: ast.Break, state: _Front) -> None:
        super()._break(node, tuple(replace(leave, back=False) for leave in state))

    def loop(self, node: Loop, test: ast.expr | None, state: _Front) -> _Front | None:
        if isinstance(node, ast.While):
            return super().loop(node, test, state)
        items, name = self._agent_calls.ordered(node.iter, self.here), _loop_name(node)
        return self._unrolled(node, name, items, state) if items and name else super().loop(node, test, state)

    def _unrolled(self, node: Loop, name: str, items: list[Any], state: _Front) -> _Front | None:
        """Unrolls a loop over agents in a known order."""
        front: _Front | None = state
        jumps = Jumps(self.jumps.returns)
        for item in items:
            jumps.continues = []
            with self.inside(_NamedScope(name, exactly(item), self.scope)), self.jumping(jumps):
                front = _merged([self.block(node.body, front), *jumps.continues])
        return _merged([self.block(node.orelse, front), *jumps.breaks])

    def _asyncfor(self, node: ast.AsyncFor, state: _Front) -> _Front | None:
        """Iteration over the events of an agent, or of a helper that runs agents."""
        source, where = self._source(node.iter)
        before = set(self._region_nodes)
        if not isinstance(source, ast.Call):
            return self._for(node, state)
        if (agents := self._agent_calls.run_by(source, where)) is not None:
            front = self._run(agents, state, source)
        elif helpers := self._agent_calls.helpers(source, where):
            front = _merged([self._inline(helper, state) for helper in helpers])
        else:
            return self._for(node, state)
        return self._with_each_event(node, front, self._region_nodes - before)

    def _with_each_event(self, node: ast.AsyncFor, front: _Front | None, inside: set[str]) -> _Front | None:
        """The body of a loop over events, which can leave while the agent is still running."""
        if self._agent_calls.runs(node.body, self.here):
            raise _UnclearError(f"line {node.lineno}: it runs an agent while another is running")
        for part in (part for statement in node.body for part in ast.walk(statement)):
            front = _escalating(front, escalates(part))
        if not _leaves(node.body):
            return front
        jumps, nodes = Jumps(self.jumps.returns), inside or {leave.node for leave in front or ()}
        with self.jumping(jumps):
            self.block(node.body, tuple(RegionExit(node, conditional=True) for node in sorted(nodes)) or None)
        return _merged([_with_condition(front or (), ""), *jumps.breaks])

    def _with(self, node: ast.With | ast.AsyncWith, state: _Front) -> _Front | None:
        front: _Front | None = state
        for item in node.items:
            closed = _closed(item.context_expr)
            if closed is not None and isinstance(item.optional_vars, ast.Name):
                self._closing[item.optional_vars.id] = (closed, self.here)
            elif front is not None:
                front = self.expression(item.context_expr, front)
        return self.block(node.body, front)

    _asyncwith = _with

    def _source(self, expression: ast.expr) -> tuple[ast.expr, NameScope]:
        """The iterable of a loop, with `Aclosing` resolved, and its scope."""
        if isinstance(expression, ast.Name) and expression.id in self._closing:
            return self._closing[expression.id]
        closed = _closed(expression)
        return (expression if closed is None else closed), self.here

    # Steps.

    def after_call(self, call: ast.Call, state: _Front) -> _Front | None:
        """A call: helpers of the program are inlined; arguments may escalate."""
        front: _Front | None = state
        for keyword in call.keywords:
            front = _escalating(front, escalates(keyword))
        agents = self._agent_calls.run_by(call, self.here)
        helpers = self._agent_calls.helpers(call, self.here) if agents is None else []
        if is_method(call, "run_node") and agents is None:
            agents = self._agent_calls.values(call.args[0] if call.args else None, self.here)
        awaits = agents is not None or any(isinstance(helper.function.tree, ast.AsyncFunctionDef) for helper in helpers)
        if awaits and id(call) not in self._consumed:
            raise _UnclearError(f"line {call.lineno}: {_short(call.func)!r} is not run to completion")
        if agents is not None:
            return self._run(agents, front or (), call)
        if self._agent_calls.passes_agents(call, self.here):
            raise _UnclearError(f"line {call.lineno}: the use of agents by {_short(call.func)!r} is unknown")
        for helper in helpers:
            front = None if front is None else self._inline(helper, front)
        return front

    def _run(self, agents: Values, front: _Front, call: ast.Call) -> _Front | None:
        """Runs one of some agents."""
        agents = self._code.shown(agents)
        agents = Values(
            tuple(agent for agent in agents.known if agent is not None), agents.complete
        )  # None cannot be run
        known = [
            agent
            for agent in agents.known
            if agent is BASE or callable(agent) or is_a(agent, ADK, "BaseNode", "BaseTool")
        ]
        if not known or not agents.complete or len(known) < len(agents.known):
            raise _UnclearError(f"line {call.lineno}: the agent that {_short(call.func)!r} runs is unknown")
        labels = [f"{_short(call.func)} is of {_label(agent)}" for agent in known]
        is_choice = len(known) > 1
        pairs = zip(known, labels, strict=True)
        return _merged([self._step(pair, _with_condition(front, text) if is_choice else front) for pair, text in pairs])

    def _step(self, agent: Any, front: _Front) -> _Front:
        inside = (*self._within, self._agent.name)
        region = (
            self._traversal.structure(self._agent, self._within)
            if agent is BASE
            else self._traversal.region(agent, inside)
        )
        self._steps.append((front, region))
        self._region_nodes |= region.nodes
        self.on_raise_point(tuple(RegionExit(node, conditional=True) for node in region.nodes))
        exits = [
            replace(leave, escalated=leave.escalated or escalation)
            for leave in region.exits
            for escalation in _escalations(front)
        ]
        return (*exits, *(front if region.empty else ()))

    def _inline(self, helper: CalledFunction, front: _Front) -> _Front | None:
        if self._depth >= MOST_NESTED:
            raise _UnclearError("its helpers call each other")
        self._depth += 1
        after = self._enter(helper, front)
        self._depth -= 1
        return after


def _merged(fronts: Iterable[_Front | None]) -> _Front | None:
    """The distinct exits of several fronts; None if there are none."""
    return tuple(dict.fromkeys(leave for front in fronts for leave in front or ())) or None


def _condition(choice: BranchChoice) -> str:
    """The condition of a choice, as text."""
    match choice.node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return _short(test) if choice.holds else _negated(test)
        case ast.For(target=target, iter=several) | ast.AsyncFor(target=target, iter=several):
            text = f"{_short(target)} in {_short(several)}"
            return text if choice.holds else f"after {text}"
        case ast.Match(subject=subject):
            named = choice.case is not None and not takes_all(choice.case)
            return f"{_short(subject)} is {_short(choice.case.pattern) if choice.case and named else 'anything else'}"
    return ""


def _escalations(front: _Front) -> set[bool]:
    """The possible escalation states of a front."""
    return {leave.escalated for leave in front}


def _label(agent: Any) -> str:
    return str(getattr(agent, "name", getattr(agent, "__name__", "another")))


def _with_condition(front: _Front, text: str) -> _Front:
    """The exits under a condition; an earlier condition is kept."""
    return tuple(replace(leave, conditional=True, condition=leave.condition or text) for leave in front)


def _escalating(front: _Front | None, value: ast.expr | None) -> _Front | None:
    """Marks exits as escalated: all of them for a constant, else both ways."""
    if front is None or value is None:
        return front
    left = tuple(replace(leave, escalated=True) for leave in front)
    return left if isinstance(value, ast.Constant) else (*front, *left)


def _leaves(block: Iterable[ast.AST]) -> bool:
    """Whether control can leave a block early."""
    jumps = (ast.Return, ast.Break, ast.Continue, ast.Raise)
    return any(isinstance(node, jumps) for statement in block for node in ast.walk(statement))


def _consumed(tree: ast.AST) -> set[int]:
    """The calls that are awaited, or iterated over asynchronously."""
    nodes = list(ast.walk(tree))
    awaited = {id(node.value) for node in nodes if isinstance(node, ast.Await)}
    return awaited | {id(node.iter) for node in nodes if isinstance(node, ast.comprehension) and node.is_async}


def _loop_name(statement: ast.For | ast.AsyncFor) -> str:
    """The loop variable; with `enumerate`, the second one."""
    target = statement.target
    match statement.iter, target:
        case ast.Call(func=ast.Name(id="enumerate")), ast.Tuple(elts=[_, second]):
            target = second
    return target.id if isinstance(target, ast.Name) else ""


def _closed(expression: ast.expr) -> ast.expr | None:
    """The argument of `Aclosing`; None for another expression."""
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


# --- routes


@dataclass(frozen=True)
class Routes:
    """The routes that a node can take.

    Attributes:
        named: the routes that its code names.
        incomplete: there may be others.
        may_take_none: it can end without a route.
    """

    named: frozenset[bool | int | str] = frozenset()
    incomplete: bool = False
    may_take_none: bool = False


def routes_of(code: FunctionCode) -> Routes:
    """The routes that a function returns, yields, or sets on its context."""
    if code.body is None:
        return Routes(incomplete=True)
    outputs = _outputs(code)
    event_routes = [
        _event_routes(code, output) for output in outputs.known if not is_result_of(output, "google", "RequestInput")
    ]
    context_routes = [each for value in _context_routes(code) for each in _flat_routes(code, value)]
    routes = [each for several in event_routes for each in several] + context_routes
    named = {route for route in routes if isinstance(route, bool | int | str)}
    unknown = not outputs.complete or any(route is UNKNOWN for route in routes)
    if code.is_generator:
        none = not named and not unknown
    else:
        none = not context_routes and (any(route is None for route in routes) or code.falls_through)
    return Routes(frozenset(named), unknown, none)


def _outputs(code: FunctionCode) -> Values:
    """The values that a function returns or yields; its own parameters are not events."""
    assert code.body is not None
    tree, scope = code.body.function.tree, code.body.scope
    if isinstance(tree, ast.Lambda):
        return code.evaluator.value(tree.body, scope)
    inputs = {argument.arg for argument in (*tree.args.args, *tree.args.kwonlyargs)}
    result = Values()
    for node in statements(tree):
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None:
            own = isinstance(node.value, ast.Name) and node.value.id in inputs and len(scope.find(node.value.id)) == 1
            result |= exactly("") if own else code.evaluator.value(node.value, scope)
    return result


def _event_routes(code: FunctionCode, output: object) -> list[Any]:
    """The routes of one output: UNKNOWN for others, None for no route."""
    if is_a(output, "google.adk", "Event"):
        return _flat_routes(code, exactly(getattr(getattr(output, "actions", None), "route", None)))
    if not is_result_of(output, "google", "Event"):
        return [None] if not isinstance(output, CallResult) or not _may_be_event(output) else [UNKNOWN]
    assert isinstance(output, CallResult)
    route = output.arguments.get("route")
    actions = output.arguments.get("actions")
    if route is None and actions is not None:
        inner = [
            action.arguments.get("route") if isinstance(action, CallResult) else UNKNOWN for action in actions.known
        ]
        flat_routes = [each for inner_route in inner for each in _flat_routes(code, inner_route or exactly(None))]
        return flat_routes if actions.complete else [*flat_routes, UNKNOWN]
    return _flat_routes(code, route or exactly(None))


def _may_be_event(output: CallResult) -> bool:
    """Whether a created object could be an event of a class of the program."""
    maker = output.callee
    if not isinstance(maker, type):
        return True
    return any(kind.__name__ == "Event" and kind.__module__.startswith("google.adk.") for kind in maker.__mro__)


def _flat_routes(code: FunctionCode, routes: Values) -> list[Any]:
    """The single routes, with lists flattened."""
    flat_routes: list[Any] = [] if routes.complete and not routes.cyclic else [UNKNOWN]
    for route in routes.known:
        if isinstance(route, Items | list | tuple):
            flat_routes.extend(_flat_routes(code, code.evaluator.elements(exactly(route))))
        else:
            flat_routes.append(route if route is None or isinstance(route, bool | int | str) else UNKNOWN)
    return flat_routes


def _context_routes(code: FunctionCode) -> Iterator[Values]:
    """The values assigned to a `route` attribute."""
    for body in code.bodies:
        for node in statements(body.function.tree):
            if isinstance(node, ast.Assign) and any(_is_route(target) for target in node.targets):
                yield code.evaluator.value(node.value, body.scope)


def _is_route(target: ast.expr) -> bool:
    return isinstance(target, ast.Attribute) and target.attr == "route"
