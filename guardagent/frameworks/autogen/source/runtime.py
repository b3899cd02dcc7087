"""Reads the agents of an AutoGen Core runtime, and the messages between them.

A published message goes to the agents that subscribe to its topic and handle its class; one that is sent goes to the
agent that it names, whose answer returns. A class, a topic or a recipient that the source does not determine may be
any. The tools of these agents count as unknown, since their handlers call them by code of their own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from guardagent.frameworks.autogen.extractor.agents import CORE
from guardagent.frameworks.autogen.package import FRAMEWORK
from guardagent.workflow.extraction import Assembly, Region, RegionEntry, RegionExit
from guardagent.workflow.model.graph import EDGES, Graph, mark
from guardagent.workflow.python_source import types
from guardagent.workflow.python_source.scopes import LoopScope
from guardagent.workflow.python_source.steps import FunctionCode, is_method
from guardagent.workflow.python_source.stubs import ClassStub, ObjectStub, Program, bases_of
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    Class,
    Function,
    LiveValue,
    NameScope,
    PartialFunction,
    Values,
    exactly,
    path_of,
    union,
)

_HANDLERS = {"rpc", "event", "message_handler"}
_NAMED = {"TopicId", "AgentId", "type_subscription", "TypeSubscription"}
_DEFAULT = {"DefaultTopicId", "default_subscription", "DefaultSubscription"}
_OWN_TOPIC = re.compile(
    r"TopicId\([^,()]*, (source=)?(self\.id\.key|ctx\.topic_id\.source)\)|DefaultTopicId\([^,()]*\)"
)
"""A topic with the key of the sender, which does not get its own messages."""

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_Handler = tuple[PartialFunction | Function, frozenset[object] | None]


@dataclass(frozen=True)
class CoreMessage:
    """A message: its classes and its topics or recipients, None if unknown; `to_others` if its sender cannot get it."""

    kinds: frozenset[object] | None = None
    names: frozenset[str] | None = None
    published: bool = True
    to_others: bool = False

    @classmethod
    def of(cls, arguments: Arguments, *, published: bool) -> CoreMessage:
        """The message of `publish_message` or `send_message`."""
        to = arguments.values_of("topic_id" if published else "recipient", 1)
        return cls(_kinds(arguments.values_of("message", 0)), _names(to), published)

    @property
    def is_known(self) -> bool:
        return self.kinds is not None and self.names is not None


@dataclass(frozen=True)
class _AgentType(LiveValue):
    """The result of `register`."""

    type: str


@dataclass(eq=False)
class CoreAgent:
    """An agent with its handlers, the classes that each takes, and its topics; None if they are unknown."""

    name: str
    handlers: list[_Handler] = field(default_factory=list)
    topics: frozenset[str] | None = frozenset()

    def subscribe(self, topics: frozenset[str] | None) -> None:
        self.topics = None if topics is None or self.topics is None else self.topics | topics

    def takes(self, message: CoreMessage) -> bool:
        """Whether a message may arrive."""
        own = self.topics if message.published else frozenset({self.name})
        if message.names is not None and own is not None and not own & message.names:
            return False
        every = [kinds for _, kinds in self.handlers] or [None]
        return any(kinds is None or message.kinds is None or kinds & message.kinds for kinds in every)


@dataclass(eq=False)
class Network(LiveValue):
    """The agents of a runtime by name, and the messages of the program to them."""

    agents: dict[str, CoreAgent] = field(default_factory=dict)
    messages: list[CoreMessage] = field(default_factory=list)
    reached: set[str] = field(default_factory=set)
    """The agents that get a message without an answer, so that a run can end after them."""

    def receivers(self, message: CoreMessage, sender: CoreAgent | None = None) -> list[str]:
        others = [agent for agent in self.agents.values() if not (message.to_others and agent is sender)]
        return [agent.name for agent in others if agent.takes(message)]


def _settle(runtime: ObjectStub) -> None:
    runtime.attributes.setdefault("_network", exactly(Network()))


def _network(runtime: ObjectStub) -> Network:
    (network,) = runtime.attributes["_network"].known
    assert isinstance(network, Network)
    return network


def _each(values: Values) -> list[object]:
    """The possible values, and None if there can be others."""
    return [*values.known, *([] if values.complete and values.known else [None])]


def _kinds(values: Values) -> frozenset[object] | None:
    """The classes of messages, or some classes themselves; None if one is unknown."""
    kinds = [
        getattr(value, "callee", getattr(value, "of", getattr(value, "made_of", value))) for value in _each(values)
    ]
    known = [id(kind.tree) if isinstance(kind, Class) else getattr(kind, "path", None) for kind in kinds]
    return None if None in known else frozenset(known)


def _names(values: Values) -> frozenset[str] | None:
    """The topics of messages and subscriptions, or the recipients; None if one is unknown."""
    names: set[str] = set()
    for value in _each(values):
        kind = path_of(getattr(value, "callee", value)).rpartition(".")[2]
        arguments = value.arguments if isinstance(value, CallResult) else Arguments()
        named = arguments.get("type") or arguments.get("topic_type", 0)
        named = exactly("default") if named is None and kind in _DEFAULT else named
        if kind not in _NAMED | _DEFAULT or named is None or not named.strings:
            return None
        names |= named.strings
    return frozenset(names)


# --- registration


def called(interpreter: Program, target: object, arguments: Arguments) -> Values | None:
    """Registers an agent by a method of its class, `register` or `register_closure`; None for other calls."""
    runtimes = [each for each in arguments.values_of("runtime", 0).known if isinstance(each, ObjectStub)]
    if isinstance(target, Attribute) and isinstance(target.owner, Class) and target.name == "register":
        made = union(interpreter.call(each, Arguments()) for each in arguments.values_of("factory", 2).known)
        owners = [exactly(each) for each in made.known if getattr(each, "made_of", None) is target.owner]
        handlers = [pair for owner in owners or [UNKNOWN] for pair in _handlers(interpreter, target.owner, owner)]
        handlers = handlers if _is_seen(interpreter, target.owner) else []
        marks = [interpreter.value(each, target.owner.scope) for each in target.owner.tree.decorator_list]
    elif path_of(target) == f"{CORE}.ClosureAgent.register_closure":
        closures = [each for each in arguments.values_of("closure", 2).known if isinstance(each, Function)]
        handlers = [(each, _taken(interpreter, each)) for each in closures]
        listed = [interpreter.call(each, Arguments()) for each in arguments.values_of("subscriptions").known]
        marks = [interpreter.elements(each) for each in listed] or [UNKNOWN]
    elif path_of(target).startswith(f"{CORE}.") and path_of(target).endswith(".register"):  # such as ToolAgent
        handlers, marks = [], []
    else:
        return None
    strings = arguments.values_of("type", 1).strings
    names = sorted(strings or {getattr(getattr(target, "owner", None), "name", "agent")})
    for agent in (_network(each).agents.setdefault(name, CoreAgent(name)) for each in runtimes for name in names):
        agent.handlers += handlers
        for mark_ in marks:
            agent.subscribe(_names(mark_) if strings else None)
    return Values(tuple(map(_AgentType, names)))


def _handlers(interpreter: Program, kind: Class, owner: Values) -> Iterator[_Handler]:
    """The handlers of a class and its base classes."""
    for node in kind.tree.body:
        for mark_ in getattr(node, "decorator_list", ()):
            marks = interpreter.value(getattr(mark_, "func", mark_), kind.scope).known
            if isinstance(node, ast.AsyncFunctionDef) and any(is_handler_mark(path_of(each)) for each in marks):
                for function in interpreter.attribute(kind, node.name).known:
                    if isinstance(function, Function):
                        yield PartialFunction(function, Arguments((owner,))), _taken(interpreter, function)
    for base in bases_of(interpreter, kind):
        if isinstance(base, Class) and base.tree is not kind.tree:
            yield from _handlers(interpreter, base, owner)


def _is_seen(interpreter: Program, kind: Class) -> bool:
    """Whether the code of all base classes is known; others may have further handlers."""
    bases = bases_of(interpreter, kind)
    own = (_is_seen(interpreter, base) for base in bases if isinstance(base, Class) and base.tree is not kind.tree)
    named = (path_of(base).partition(".")[0] for base in bases if not isinstance(base, Class))
    return len(bases) == len(kind.tree.bases) and all(own) and all(name in {CORE, "abc", "typing"} for name in named)


def is_handler_mark(path: str) -> bool:
    """Whether it is a decorator of the handlers, which leaves them as they are."""
    return path.startswith(f"{CORE}.") and path.rpartition(".")[2] in _HANDLERS


def _taken(interpreter: Program, function: Function) -> frozenset[object] | None:
    """The classes in the annotation of the message; None if one is unknown."""
    parameters = function.tree.args.args[1:2]
    parts = [
        part.type for each in parameters for part in types.annotated_types(interpreter, each.annotation, function.scope)
    ]
    return _kinds(Values(tuple(parts)))


def _subscribe(runtime: ObjectStub, arguments: Arguments, _line: int) -> Values:
    added = arguments.values_of("subscription", 0)
    agents = [each.arguments.values_of("agent_type", 1) for each in added.known if isinstance(each, CallResult)]
    names = agents[0].strings if len(agents) == 1 else None
    for agent in _network(runtime).agents.values():
        if names is None or agent.name in names:
            agent.subscribe(_names(added))
    return UNKNOWN


def _register_factory(runtime: ObjectStub, arguments: Arguments, _line: int) -> Values:
    """Adds an agent of any class."""
    for name in arguments.values_of("type", 0).strings or {"agent"}:
        _network(runtime).agents[name] = CoreAgent(name, topics=None)
    return UNKNOWN


def _publish(runtime: ObjectStub, arguments: Arguments, _line: int, *, published: bool = True) -> Values:
    _network(runtime).messages.append(CoreMessage.of(arguments, published=published))
    return UNKNOWN


def _send(runtime: ObjectStub, arguments: Arguments, line: int) -> Values:
    return _publish(runtime, arguments, line, published=False)


RUNTIME = ClassStub(
    "AgentRuntime", CORE, finish=_settle, suffix="Runtime",
    methods={
        "register_factory": _register_factory, "add_subscription": _subscribe, "publish_message": _publish,
        "send_message": _send,
    },
)  # fmt: skip
AGENT = ClassStub("RoutedAgent", CORE, methods={"register": lambda *_: UNKNOWN})


# --- graphs


def graph_of(runtime: ObjectStub, name: str) -> Graph | None:
    """The graph of the messages between the agents of a runtime; None if it has no agents."""
    network, assembly = _network(runtime), Assembly()
    firsts = network.messages or [CoreMessage()]
    starts = sorted({start for first in firsts for start in network.receivers(first)})
    network.reached |= set(starts)
    if not all(first.is_known for first in firsts):
        assembly.note("the source does not determine the first messages; they are assumed to go to any agent")
    ends: set[str] = set()
    for agent in network.agents.values():
        codes = [FunctionCode(runtime.interpreter.converter.function(handler)) for handler, _ in agent.handlers]
        model = any(is_method(call, "create") for code in codes for body in code.bodies for call in body.calls)
        model = model or any(code.summary.calls_model for code in codes)
        assembly.describe(
            agent.name, "human" if any(code.asks for code in codes) else "llm" if model else "passthrough", agent.name,
            tools_unknown=mark("its handlers call tools by code of their own"), **(codes[0].place if codes else {}),
        )  # fmt: skip
        if not codes:
            _deliver(assembly, network, agent, CoreMessage(), "its handlers are unknown: a message")
        always = [_connect(assembly, network, agent, code) for code in codes]
        if not always or not all(always):
            ends.add(agent.name)
    entries = tuple(RegionEntry(start, "parallel" if len(starts) > 1 else "direct") for start in starts)
    exits = tuple(RegionExit(end, "publishes nothing", conditional=True) for end in sorted(ends & network.reached))
    return assembly.graph(name, FRAMEWORK, Region(entries, exits)) if network.agents else None


def _connect(assembly: Assembly, network: Network, agent: CoreAgent, code: FunctionCode) -> bool:
    """Connects an agent with those that get the messages of a handler; whether some agent always gets one."""
    arriving: set[ast.Call] = set()
    for call, scope in (pair for body in code.bodies for pair in _calls(body.function.tree, body.scope)):
        if (message := _message(code, call, scope)) is not None:
            others = _deliver(assembly, network, agent, message, f"line {call.lineno}: a message")
            arriving |= {call} if others and message.is_known and message.published else set()
    return code.body is not None and _always(getattr(code.body.function.tree, "body", []), arriving)


def _deliver(assembly: Assembly, network: Network, agent: CoreAgent, message: CoreMessage, what: str) -> list[str]:
    """Connects an agent with those that get one of its messages, and returns these."""
    others = network.receivers(message, agent)
    for other in others:
        assembly.connect([RegionExit(agent.name)], [RegionEntry(other, "parallel", "it gets a message")])
        if not message.published:
            assembly.connect([RegionExit(other, "answers", conditional=True)], [RegionEntry(agent.name)])
    network.reached |= set(others) if message.published else set()
    if not message.is_known:
        assembly.mark_unknown(agent.name, EDGES, f"{what} or its recipient is unknown")
    return others


def _calls(tree: ast.AST, scope: NameScope) -> Iterator[tuple[ast.Call, NameScope]]:
    for node in ast.iter_child_nodes(tree):
        inner = LoopScope(node, scope) if isinstance(node, _COMPREHENSIONS) else scope
        yield from [(node, inner)] if isinstance(node, ast.Call) else []
        yield from _calls(node, inner)


def _message(code: FunctionCode, call: ast.Call, scope: NameScope) -> CoreMessage | None:
    """The message that a call sends: any, if the agent is passed to code that is not read; None if it sends none."""
    if is_method(call, "publish_message", "send_message"):
        message = CoreMessage.of(code.evaluator.arguments(call, scope), published=is_method(call, "publish_message"))
        return replace(message, to_others=bool(_OWN_TOPIC.search(ast.unparse(call))))
    passed = any(isinstance(part, ast.Name) and part.id == "self" for part in call.args)
    read = any(code.called_function(callee) for callee in code.evaluator.value(call.func, scope).known)
    return CoreMessage(published=False) if passed and not read else None


def _always(body: list[ast.stmt], calls: set[ast.Call]) -> bool:
    """Whether every run of a block that does not raise makes one of the calls."""
    for statement in body:
        parts = list(ast.walk(statement))
        both = isinstance(statement, ast.If) and _always(statement.body, calls) and _always(statement.orelse, calls)
        if both or (not hasattr(statement, "body") and any(part in calls for part in parts)):
            return True
        if any(isinstance(part, ast.Return) for part in parts):
            return False
    return False
