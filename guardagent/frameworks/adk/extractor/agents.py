"""The code of an ADK agent: the effects of its functions, its tools, and the agents that it runs.

`AdkCode` finds whether a function asks a person, escalates, or runs other nodes. `toolbox` returns the tools of an
agent: their names, their approval gates, and the nodes that they run. `AgentCalls` resolves the agents that the code of
a custom agent runs.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from guardagent.workflow.extraction import AgentTools, UnknownValue, defined_outside, is_a, private_attribute
from guardagent.workflow.python_source.bodies import Flow, FrameworkNames, opaque_calls_in
from guardagent.workflow.python_source.scopes import CodeScope
from guardagent.workflow.python_source.steps import CalledFunction, FunctionCode, guard_label, is_method
from guardagent.workflow.python_source.values import (
    Attribute,
    Class,
    ImportedName,
    NameScope,
    PartialFunction,
    Sequence,
    Table,
    Values,
    exactly,
    path_of,
)

_WORDS = FrameworkNames(("google",), frozenset({("google", "RequestInput")}))
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


class AdkCode(FunctionCode):
    """The code of a function, a method or an object of an ADK program."""

    def __init__(self, target: object) -> None:
        super().__init__(target, _WORDS)

    @cached_property
    def confirms(self) -> bool:
        """Whether it asks for the confirmation of a call, perhaps under a condition."""
        return any(_is_request(call) for body in self.bodies for call in body.calls)

    @cached_property
    def always_confirms(self) -> bool:
        """Whether an unconfirmed call always asks for confirmation."""
        if self.body is None or isinstance(self.body.function.tree, ast.Lambda):
            return False
        return Flow(_unconfirmed(self.body.function.tree), _is_request).always_asks

    @cached_property
    def escalates(self) -> bool:
        """Whether it can end the enclosing loop; assumed if it cannot be read and takes a context."""
        if self.body is None:
            return self._takes_context
        return any(escalates(node) is not None for body in self.bodies for node in ast.walk(body.function.tree))

    @property
    def _takes_context(self) -> bool:
        if isinstance(self.target, UnknownValue):
            return True
        try:
            parameters = inspect.signature(self.target).parameters  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return False
        return any("context" in name or name == "ctx" for name in parameters)

    @cached_property
    def runs(self) -> tuple[Values, ...]:
        """The values that it passes to `ctx.run_node`."""
        return tuple(self.shown(values) for values, _, _ in self.arguments_of("run_node", names=("node_like", "node")))


def _is_request(call: ast.Call) -> bool:
    return is_method(call, "request_confirmation")


def _unconfirmed(tree: _Definition) -> _Definition:
    """A function as it runs before confirmation, without the branches for confirmed calls."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and _is_confirmation(node.value, set())]
    names = {target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)}
    result: _Definition = _UnconfirmedBranches(names).visit(copy.deepcopy(tree))
    return result


class _UnconfirmedBranches(ast.NodeTransformer):
    """Replaces each `if` by the branch that runs without a confirmation."""

    def __init__(self, names: set[str]) -> None:
        self._names = names

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        holds = _holds(node.test, self._names)
        if holds is None:
            return node
        return (node.body if holds else node.orelse) or [ast.Pass()]


def _holds(test: ast.expr, names: set[str]) -> bool | None:
    """Whether a test holds without a confirmation; None if it depends on something else."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            inside = _holds(inner, names)
            return None if inside is None else not inside
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]):
            return True if _is_confirmation(left, names) else None
        case ast.Compare(left=left, ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=None)]):
            return False if _is_confirmation(left, names) else None
        case ast.BoolOp(op=ast.And(), values=values):
            verdicts = {_holds(value, names) for value in values}
            return False if False in verdicts else True if verdicts == {True} else None
        case ast.BoolOp(op=ast.Or(), values=values):
            verdicts = {_holds(value, names) for value in values}
            return True if True in verdicts else False if verdicts == {False} else None
    return False if _is_confirmation(test, names) else None


def _is_confirmation(node: ast.expr, names: set[str]) -> bool:
    attribute = isinstance(node, ast.Attribute) and node.attr == "tool_confirmation"
    return attribute or (isinstance(node, ast.Name) and node.id in names)


def escalates(node: ast.AST) -> ast.expr | None:
    """The value assigned or passed to `escalate`; None if there is none, or it is a false constant."""
    match node:
        case ast.Assign(targets=[*_, ast.Attribute(attr="escalate")], value=value):
            return value if _can_be(value) else None
        case ast.keyword(arg="escalate", value=value):
            return value if _can_be(value) else None
    return None


def _can_be(value: ast.expr) -> bool:
    return not (isinstance(value, ast.Constant) and not value.value)


# --- tools

ADK = "google.adk"
DISTRIBUTION = "google-adk"
_CONTROL = ("FinishTaskTool", "TransferToAgentTool")  # represented by edges
_DELEGATES = ("_TaskAgentTool", "_SingleTurnAgentTool")
_APPROVAL_TOOLS = ("get_user_choice", "adk_request_input")
_TOOLSET_DEPTH = 4


def toolbox(tools: Iterable[object]) -> AgentTools:
    """The toolbox of an agent, from its `tools`."""
    box = AgentTools()
    for tool in tools:
        if isinstance(tool, UnknownValue):
            box.add_outside(tool)
            box.escalates = True
        elif is_a(tool, ADK, "BaseNode"):
            _node(box, str(_name(tool)), tool)
        elif is_a(tool, ADK, "BaseToolset"):
            _toolset(box, tool)
        elif is_a(tool, ADK, "BaseTool"):
            _tool(box, tool)
        elif callable(tool):
            _function(box, _name_of_callable(tool), tool)
        elif tool is not None:
            box.add_source(type(tool).__name__)
    return box


def _tool(box: AgentTools, tool: Any) -> None:
    if is_a(tool, ADK, *_CONTROL):
        return
    if is_a(tool, ADK, *_DELEGATES):
        box.add(tool.name)  # the agent itself is among the sub-agents
    elif is_a(tool, ADK, "AgentTool"):
        box.add(tool.name, _declared_gate(tool))
        box.runs.append((tool.name, tool.agent))
    elif is_a(tool, ADK, "NodeTool"):
        _node(box, tool.name, tool.node)
    elif is_a(tool, ADK, "FunctionTool"):
        _function_tool(box, tool)
    else:
        _other_tool(box, tool)


def _node(box: AgentTools, name: str, node: Any) -> None:
    """Adds a node of a workflow as a tool."""
    gate = predicate(getattr(node, "require_confirmation", False))
    box.add(name, gate)
    if gate is None or not is_a(node, ADK, "FunctionNode"):
        box.runs.append((name, node))


def _function_tool(box: AgentTools, tool: Any) -> None:
    gate = _declared_gate(tool)
    if gate is None and is_a(tool, ADK, "LongRunningFunctionTool"):
        _long_running(box, tool)
    else:
        _function(box, tool.name, tool.func, gate)


def _function(box: AgentTools, name: str, function: object, gate: str | None = None) -> None:
    """Adds a function of the program, which may ask a person in its body."""
    code = AdkCode(function)
    box.opaque_calls.extend(what.inside(f"the tool {name}") for what in opaque_calls_in(function))
    box.add(name, _gate_in(box, name, code) if gate is None else gate)
    box.escalates = box.escalates or code.escalates


def _gate_in(box: AgentTools, name: str, code: AdkCode) -> str | None:
    """The gate of a tool whose body always asks a person; None if it does not."""
    if code.always_confirms or code.always_asks:
        return ""
    if code.confirms or code.asks:
        box.notes.append(f"the tool {name!r} asks a person only under a condition; it is not gated")
    return None


def _long_running(box: AgentTools, tool: Any) -> None:
    """Adds a long-running tool, which waits for an answer from outside.

    Its function runs before that, so it is a gate only if the function does nothing but return its value.
    """
    code = AdkCode(tool.func)
    box.opaque_calls.extend(what.inside(f"the tool {tool.name}") for what in opaque_calls_in(tool.func))
    asks = tool.name in _APPROVAL_TOOLS or code.is_pure
    box.add(tool.name, "" if asks else _gate_in(box, tool.name, code))
    box.escalates = box.escalates or code.escalates
    if asks and tool.name not in _APPROVAL_TOOLS:
        box.notes.append(f"the long-running tool {tool.name!r} does nothing by itself; it is assumed to ask a person")
    elif not asks:
        box.notes.append(
            f"the long-running tool {tool.name!r} acts before it is answered; it does not count as an approval"
        )


def _other_tool(box: AgentTools, tool: Any) -> None:
    """Adds a tool of the framework, or of a class of the program."""
    gate = _declared_gate(tool)
    run = defined_outside(tool, ADK, "run_async")
    if run is not None:
        code = AdkCode(functools.partial(run, tool))
        box.opaque_calls.extend(what.inside(f"the tool {tool.name}") for what in opaque_calls_in(code.target))
        gate = _gate_in(box, tool.name, code) if gate is None else gate
        box.escalates = box.escalates or code.escalates
    box.add(tool.name, gate)


def _declared_gate(tool: Any) -> str | None:
    """The gate that a tool declares; None if it needs no confirmation."""
    check = defined_outside(tool, ADK, "check_require_confirmation")
    if check is not None:
        return guard_label(AdkCode(functools.partial(check, tool)), "check_require_confirmation")
    if is_a(tool, ADK, "FunctionTool", "McpTool", "MCPTool"):
        return predicate(private_attribute(tool, "_require_confirmation", DISTRIBUTION))
    return None


def predicate(required: object) -> str | None:
    """The gate of a flag, or of a function that decides for each call."""
    if not callable(required):
        return "" if required else None
    return guard_label(AdkCode(required), _name_of_callable(required))


def _toolset(box: AgentTools, toolset: Any) -> None:
    """Adds a toolset: the tools that a filter names, or that it holds; else a wildcard."""
    gate = predicate(getattr(toolset, "require_confirmation", False))
    prefix = f"{toolset.tool_name_prefix}_" if getattr(toolset, "tool_name_prefix", None) else ""
    chosen = getattr(toolset, "tool_filter", None)
    held = list(_tools_held(list(vars(toolset).values()), _TOOLSET_DEPTH))
    if isinstance(chosen, list | tuple | set | frozenset) and all(
        isinstance(allowed_name, str) for allowed_name in chosen
    ):
        by_name = {held_tool.name: held_tool for held_tool in held}
        for name in chosen:
            box.add(f"{prefix}{name}", gate if gate is not None else _gate_of(by_name.get(name)))
        return
    for tool in held:
        box.add(f"{prefix}{tool.name}", gate if gate is not None else _gate_of(tool))
    if not (held and is_a(toolset, ADK, "OpenAPIToolset")):
        box.add_source(f"{prefix}{type(toolset).__name__}", gate)


def _gate_of(tool: object) -> str | None:
    if tool is None:
        return None
    box = AgentTools()
    _tool(box, tool)
    return (box.gated_when.get(box.gated[0], "")) if box.gated else None


def _tools_held(values: list[Any], depth: int) -> Iterable[Any]:
    """The tools in the attributes of a toolset."""
    for value in values:
        if is_a(value, ADK, "BaseTool"):
            yield value
        elif depth and isinstance(value, list | tuple):
            yield from _tools_held(list(value), depth - 1)
        elif depth and isinstance(value, dict):
            yield from _tools_held(list(value.values()), depth - 1)


def _name(tool: Any) -> object:
    return tool.name


def _name_of_callable(target: Any) -> str:
    """The name that the framework gives a callable: of the function inside a partial, or of the class."""
    while isinstance(target, functools.partial) and not hasattr(target, "__name__"):
        target = target.func
    return str(getattr(target, "__name__", None) or type(target).__name__)


# --- the agents that a custom agent runs

BASE: Any = type("Base", (), {"name": "super()"})()  # the run method of the framework class, called by `super()`
MOST_NESTED = 12
_RUN_METHODS = ("run_async", "run_live", "_run_async_impl", "_run_live_impl", "_run_impl", "run")
_LOOKUPS = ("find_agent", "find_sub_agent")
_CONTEXTS = {"ctx", "context", "invocation_context", "parent_context"}


class AgentCalls:
    """Resolves agents in the code of one custom agent."""

    def __init__(self, code: FunctionCode, agent: object) -> None:
        self._code, self._evaluator, self._agent = code, code.evaluator, agent
        self._found: dict[tuple[str, int, int], tuple[NameScope, bool]] = {}

    def run_by(self, call: ast.Call, scope: NameScope) -> Values | None:
        """The agents that a call runs; None if it runs none."""
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _RUN_METHODS:
            return None
        owner = call.func.value
        if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super":
            return exactly(BASE)
        values = self.values(owner, scope)
        if any(is_a(value, ADK, "BaseNode") for value in values.known):
            return values
        return values if not values.complete and takes_context(call) else None

    def values(self, expression: ast.expr | None, scope: NameScope) -> Values:
        """The values of an expression; resolves agents looked up by name or index."""
        match expression:
            case ast.Call(func=ast.Attribute(value=owner, attr=attribute), args=[name, *_]) if attribute in _LOOKUPS:
                named = self._by_name(self.values(owner, scope), self._evaluator.value(name, scope))
                inner = tuple(value for value in named.known if value is not self._agent or attribute == "find_agent")
                return Values(inner, named.complete)
            case ast.Subscript(value=inner, slice=ast.UnaryOp() | ast.Constant() as place):
                items, number = self._items(inner, scope), _number(place)
                if items is not None and isinstance(number, int) and -len(items) <= number < len(items):
                    return exactly(items[number])
            case ast.Name(id=name) if isinstance(scope, CodeScope) and (bindings := scope.find(name)):
                sources = [binding.source for binding in bindings if not binding.steps and not binding.grows]
                if len(sources) == len(bindings) and all(isinstance(source, ast.expr) for source in sources):
                    return self._union([source for source in sources if isinstance(source, ast.expr)], scope)
        return self._evaluator.value(expression, scope)

    def _union(self, sources: Iterable[ast.expr], scope: NameScope) -> Values:
        result = Values()
        for source in sources:
            own = isinstance(source, ast.Call | ast.Subscript)
            result |= self.values(source, scope) if own else self._evaluator.value(source, scope)
        return result

    def _by_name(self, owners: Values, names: Values) -> Values:
        if not owners.complete:
            return Values(complete=False)
        if names.strings is None:  # any of them
            agents = [agent for owner in owners.known for agent in _agents_in(owner)]
            return Values(tuple({id(agent): agent for agent in agents}.values()), bool(agents))
        agents = [_find_agent(owner, name) for owner in owners.known for name in sorted(names.strings)]
        return Values(tuple(agent for agent in agents if agent is not None), all(agent is not None for agent in agents))

    def ordered(self, expression: ast.expr, scope: NameScope) -> list[Any] | None:
        """The agents of a collection in order; None if it holds others, or the order is unknown."""
        items = self._items(expression, scope)
        return items if items and all(is_a(item, ADK, "BaseNode") for item in items) else None

    def _items(self, expression: ast.expr | None, scope: NameScope) -> list[Any] | None:
        match expression:
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                each = [self.values(part, scope) for part in parts]
                exact = all(len(values.known) == 1 and values.complete for values in each)
                return [values.known[0] for values in each] if exact else None
            case ast.Call(func=ast.Name(id="enumerate" | "list" | "tuple"), args=[inner, *_]):
                return self._items(inner, scope)
            case ast.Call(func=ast.Name(id="reversed"), args=[inner]):
                items = self._items(inner, scope)
                return items[::-1] if items is not None else None
            case ast.Subscript(value=inner, slice=ast.Slice() as part):
                return _sliced(self._items(inner, scope), part)
            case ast.Attribute():
                return _known_list(self._evaluator.value(expression, scope))
            case ast.Name(id=name):
                return self._items_of_name(name, scope)
        return None

    def _items_of_name(self, name: str, scope: NameScope | None) -> list[Any] | None:
        while scope is not None:
            if bindings := scope.find(name):
                source = bindings[0].source
                if len(bindings) > 1 or bindings[0].steps or bindings[0].grows:
                    return None
                if isinstance(source, Values):
                    return _known_list(source)
                return self._items(source, scope) if isinstance(source, ast.expr) else None
            scope = scope.parent
        return None

    def helpers(self, call: ast.Call, scope: NameScope) -> list[CalledFunction]:
        """The program's functions that a call runs and that run agents."""
        arguments = self._evaluator.arguments(call, scope)
        opened = [
            self._code.called_function(value, arguments) for value in self._evaluator.value(call.func, scope).known
        ]
        return [helper for helper in opened if helper is not None and self.runs([helper.function.tree], helper.scope)]

    def runs(self, trees: Iterable[ast.AST], scope: NameScope, depth: int = 0) -> bool:
        """Whether code runs agents, directly or in a helper."""
        calls = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call))
        return any(self._once("runs", call, scope, lambda call: self._runs(call, scope, depth)) for call in calls)

    def _runs(self, call: ast.Call, scope: NameScope, depth: int) -> bool:
        is_own = is_method(call, "run_node") or self.run_by(call, scope) is not None
        return is_own or self._helper_runs(call, scope, depth)

    def _once(self, what: str, call: ast.Call, scope: NameScope, find: Callable[[ast.Call], bool]) -> bool:
        """Answers a question about a call in a scope; enclosing blocks ask it again."""
        key = what, id(call), id(scope)
        if key not in self._found:
            self._found[key] = scope, find(call)
        return self._found[key][1]

    def _helper_runs(self, call: ast.Call, scope: NameScope, depth: int) -> bool:
        if depth >= MOST_NESTED:
            return True
        opened = [self._code.called_function(value) for value in self._evaluator.value(call.func, scope).known]
        return any(
            self.runs([helper.function.tree], helper.scope, depth + 1) for helper in opened if helper is not None
        )

    def passes_agents(self, call: ast.Call, scope: NameScope) -> bool:
        """Whether a call passes agents, or the run context, to code that cannot be read."""
        return self._once("passes", call, scope, lambda call: self._passes_agents(call, scope))

    def _passes_agents(self, call: ast.Call, scope: NameScope) -> bool:
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        agents = any(self._is_agent(argument, scope) for argument in arguments)
        if not agents and not takes_context(call):
            return False
        callees = self._evaluator.value(call.func, scope)
        return not (
            callees.known and callees.complete and all(self._is_harmless(callee, agents) for callee in callees.known)
        )

    def _is_harmless(self, callee: object, agents: bool) -> bool:  # noqa: FBT001
        """Whether a callee is inlined, or runs no agents (the framework runs them only by known methods)."""
        if self._code.called_function(callee) is not None:
            return True
        while isinstance(callee, PartialFunction):
            callee = callee.function
        if isinstance(callee, Attribute) and callee.name == "get":
            return isinstance(callee.owner, Table | dict)
        root = path_of(callee).partition(".")[0]
        is_class = isinstance(callee, type | Class) or (
            isinstance(callee, ImportedName) and _is_class_name(callee.path)
        )
        return root in sys.stdlib_module_names or (not agents and (root == "google" or is_class))

    def _elements(self, value: object) -> Iterable[object]:
        return self._evaluator.elements(exactly(value)).known if isinstance(value, list | tuple | Sequence) else [value]

    def _is_agent(self, expression: ast.expr, scope: NameScope) -> bool:
        known = self.values(expression, scope).known
        flat = [each for value in known for each in self._elements(value)]
        return any(is_a(member, ADK, "BaseAgent") and member is not self._agent for member in flat)


def takes_context(call: ast.Call) -> bool:
    """Whether a call takes the run context."""
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(isinstance(argument, ast.Name) and argument.id in _CONTEXTS for argument in arguments)


def _is_class_name(path: str) -> bool:
    return path.rpartition(".")[2][:1].isupper()


def _find_agent(owner: Any, name: str) -> Any:
    """The agent of a name in a tree, as `find_agent` does."""
    if not is_a(owner, ADK, "BaseAgent"):
        return None
    if owner.name == name:
        return owner
    return next((agent for child in owner.sub_agents if (agent := _find_agent(child, name)) is not None), None)


def _agents_in(owner: Any) -> Iterable[Any]:
    """All agents in a tree of agents."""
    if is_a(owner, ADK, "BaseAgent"):
        yield owner
        for child in owner.sub_agents:
            yield from _agents_in(child)


def _known_list(values: Values) -> list[Any] | None:
    if len(values.known) == 1 and values.complete and isinstance(values.known[0], Sequence):
        items = values.known[0].items
        exact = values.known[0].ordered and all(len(item.known) == 1 and item.complete for item in items)
        return [item.known[0] for item in items] if exact else None
    if len(values.known) != 1 or not values.complete or not isinstance(values.known[0], list | tuple):
        return None
    return list(values.known[0])


def _sliced(items: list[Any] | None, part: ast.Slice) -> list[Any] | None:
    bounds = [None if limit is None else _number(limit) for limit in (part.lower, part.upper, part.step)]
    numbers = [limit for limit in bounds if limit is None or isinstance(limit, int)]
    if items is None or len(numbers) < 3:
        return None
    return items[slice(*numbers)]


def _number(node: ast.expr) -> int | ast.expr:
    """The value of an integer literal; else the expression."""
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            return -value
    return node
