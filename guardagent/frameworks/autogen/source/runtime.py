"""Reads the agents of an AutoGen Core runtime, and the messages between them.

A published message goes to the agents that subscribe to its topic and handle its class; one that is sent goes to the
agent that it names, whose answer returns. A class, a topic or a recipient that the source does not determine may be
any. The tools of these agents count as unknown, since their handlers call them by code of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from guardagent.frameworks.autogen.extractor.agents import CORE
from guardagent.frameworks.autogen.package import FRAMEWORK
from guardagent.workflow.extraction import Assembly, Region, RegionEntry, RegionExit
from guardagent.workflow.model.graph import EDGES, Graph, NodeKind, mark
from guardagent.workflow.python_source.scopes import LoopScope
from guardagent.workflow.python_source.steps import FunctionCode, is_method
from guardagent.workflow.python_source.stubs import ClassStub, ObjectStub, Program, bases_of
from guardagent.workflow.python_source.values import (
    NOTHING,
    UNKNOWN,
    Arguments,
    Attribute,
    CallResult,
    Class,
    Function,
    FunctionTree,
    ImportedName,
    Instance,
    LiveValue,
    NameScope,
    PartialFunction,
    Values,
    exactly,
    path_of,
)

_HANDLERS = {"rpc", "event", "message_handler"}
_OWN_KEYS = {"self.id.key", "ctx.topic_id.source"}
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_TOOLS = "its handlers call tools by code of their own"

_Handler = tuple[PartialFunction | Function, frozenset[object] | None]


def is_handler_mark(path: str) -> bool:
    """Whether it is a decorator of the handlers, which leaves them as they are."""
    return path.startswith(f"{CORE}.") and path.rpartition(".")[2] in _HANDLERS


@dataclass(frozen=True)
class Message:
    """A message: its class and its topics or recipients, None if unknown; `to_others` if its sender cannot get it."""

    kinds: frozenset[object] | None = None
    names: frozenset[str] | None = None
    published: bool = True
    to_others: bool = False

    @property
    def is_known(self) -> bool:
        return self.kinds is not None and self.names is not None


@dataclass(frozen=True)
class _AgentType(LiveValue):
    """The result of `register`."""

    type: str


@dataclass(eq=False)
class CoreAgent:
    """An agent of a runtime, with its handlers, the classes that each takes, and its topics; None if unknown."""

    name: str
    kind: str
    handlers: list[_Handler]
    topics: set[str] | None

    def takes(self, message: Message) -> bool:
        """Whether a message may arrive."""
        own = self.topics if message.published else {self.name}
        if message.names is not None and own is not None and not own & message.names:
            return False
        kinds = [kinds for _, kinds in self.handlers]
        return not kinds or any(kind is None or message.kinds is None or kind & message.kinds for kind in kinds)


@dataclass(eq=False)
class _Agents(LiveValue):
    """The agents of a runtime, the messages of the program to them, and the agents after which a run can end."""

    registered: dict[str, CoreAgent] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    ending: dict[str, None] = field(default_factory=dict)

    def receivers(self, message: Message, sender: CoreAgent | None = None) -> list[CoreAgent]:
        """The agents that may get a message."""
        others = [each for each in self.registered.values() if not (message.to_others and each is sender)]
        return [each for each in others if each.takes(message)]


def _settle(runtime: ObjectStub) -> None:
    runtime.attributes.setdefault("_agents", exactly(_Agents()))


def _agents(runtime: ObjectStub) -> _Agents:
    (agents,) = runtime.attributes["_agents"].known
    assert isinstance(agents, _Agents)
    return agents


def _register(runtime: ObjectStub, kinds: Values, types: Values, factories: Values, topics: set[str] | None) -> Values:
    """Adds an agent: an object of one of the classes, from a factory, or a closure."""
    interpreter = runtime.interpreter
    made = NOTHING
    for factory in factories.known:
        made |= interpreter.call(factory, Arguments())
    objects = [each for each in made.known if isinstance(each, ObjectStub)]
    named = [kind for kind in kinds.known if isinstance(kind, Class)]
    classes = named or [each.made_of for each in objects if isinstance(each.made_of, Class)]
    handlers: list[_Handler] = []
    for kind in classes:
        owners = [exactly(each) for each in objects if each.made_of is kind] or [UNKNOWN]
        handlers += [handler for owner in owners for handler in _handlers(interpreter, kind, owner)]
    for closure in (closure for closure in kinds.known if isinstance(closure, Function)):
        handlers.append((closure, _taken(interpreter, closure.scope, closure.tree)))
    names = [kind.tree.name for kind in classes] or [path_of(kind).rpartition(".")[2] for kind in kinds.known]
    registered = sorted(types.strings or names[:1] or ["agent"])
    for name in registered:
        agent = CoreAgent(name, "".join(names[:1]), [], set())
        agent = _agents(runtime).registered.setdefault(name, agent)
        agent.handlers += handlers
        unknown = topics is None or agent.topics is None or not types.strings
        agent.topics = None if unknown else {*(topics or ()), *(agent.topics or ())}
    return Values(tuple(map(_AgentType, registered)))


def _handlers(interpreter: Program, kind: Class, owner: Values) -> Iterator[_Handler]:
    """The handlers of a class and its base classes."""
    bound = Arguments((owner,))
    for node in kind.tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        marks = [interpreter.value(getattr(each, "func", each), kind.scope).known for each in node.decorator_list]
        if node.name == "on_message_impl" or any(is_handler_mark(path_of(each)) for mark_ in marks for each in mark_):
            function = interpreter.attribute(kind, node.name).known
            taken = None if node.name == "on_message_impl" else _taken(interpreter, kind.scope, node)
            yield from ((PartialFunction(each, bound), taken) for each in function if isinstance(each, Function))
    for base in bases_of(interpreter, kind):
        if isinstance(base, Class) and base.tree is not kind.tree:
            yield from _handlers(interpreter, base, owner)


def _taken(interpreter: Program, scope: NameScope, tree: FunctionTree) -> frozenset[object] | None:
    """The classes in the annotation of the message; None if one is unknown."""
    annotation = tree.args.args[1].annotation if len(tree.args.args) > 1 else None
    pending, parts = [annotation], list[ast.expr]()
    while pending:
        match pending.pop():
            case ast.BinOp(left=left, right=right):
                pending += [left, right]
            case ast.Subscript(slice=ast.Tuple(elts=elements)):
                pending += elements
            case ast.expr() as part:
                parts.append(part)
            case _:
                return None
    return _joined([_kind(value) for part in parts for value in _each(interpreter.value(part, scope))])


def _each(values: Values) -> list[object]:
    return [*values.known, *([] if values.complete and values.known else [None])]


def _kind(value: object) -> object:
    """The class of a message, or a class itself; None if it is unknown."""
    value = value.callee if isinstance(value, CallResult) else value.of if isinstance(value, Instance) else value
    value = getattr(value, "made_of", value)
    return id(value.tree) if isinstance(value, Class) else value.path if isinstance(value, ImportedName) else None


def _joined(kinds: list[object]) -> frozenset[object] | None:
    return None if None in kinds or not kinds else frozenset(kinds)


def _sent(message: Values, to: Values, *, published: bool, to_others: bool = False) -> Message:
    kinds = _joined([_kind(value) for value in _each(message)])
    return Message(kinds, _names(to), published, to_others)


def _names(to: Values) -> frozenset[str] | None:
    """The topics, or the recipients, of a message; None if they are unknown."""
    names: set[str] = set()
    for value in _each(to):
        kind = path_of(value.callee).rpartition(".")[2] if isinstance(value, CallResult) else ""
        arguments = value.arguments if isinstance(value, CallResult) else Arguments()
        named = arguments.get("type", 0)
        if kind == "DefaultTopicId" and named is None:
            named = exactly("default")
        if kind not in {"TopicId", "DefaultTopicId", "AgentId"} or named is None or not named.strings:
            return None
        names |= set(named.strings)
    return frozenset(names)


def _subscriptions(values: Values) -> set[str] | None:
    """The topics of subscriptions, or of the decorators of a class; None if one is unknown."""
    topics: set[str] = set()
    for value in _each(values):
        kind = path_of(getattr(value, "callee", value)).rpartition(".")[2]
        named = value.arguments.get("topic_type", 0) if isinstance(value, CallResult) else None
        if kind in {"default_subscription", "DefaultSubscription"}:
            topics |= {"default"}
        elif kind in {"type_subscription", "TypeSubscription"} and named is not None and named.strings:
            topics |= set(named.strings)
        else:
            return None
    return topics


def _class_topics(interpreter: Program, kinds: Values) -> set[str] | None:
    classes = [kind for kind in kinds.known if isinstance(kind, Class)]
    decorators = [interpreter.value(each, kind.scope) for kind in classes for each in kind.tree.decorator_list]
    topics = [_subscriptions(each) for each in decorators]
    return None if None in topics or not classes else {name for each in topics for name in each or ()}


def called(interpreter: Program, target: object, arguments: Arguments) -> Values | None:
    """Registers an agent by a method of its class, `register` or `register_closure`; None for other calls."""
    path = path_of(target) if isinstance(target, ImportedName) else ""
    if not path.startswith(f"{CORE}.") and not (isinstance(target, Attribute) and isinstance(target.owner, Class)):
        return None
    how = path.rpartition(".")[2] or getattr(target, "name", "")
    types, made = arguments.values_of("type", 1), arguments.values_of("factory", 2)
    result: Values | None = None
    for runtime in (each for each in arguments.values_of("runtime", 0).known if isinstance(each, ObjectStub)):
        if how == "register_closure":
            made = arguments.values_of("closure", 2)
            listed = [interpreter.call(each, Arguments()) for each in arguments.values_of("subscriptions").known]
            topics = _subscriptions(interpreter.elements(listed[0])) if listed else None
            result = _register(runtime, made, types, NOTHING, topics)
        elif how == "register":
            kinds = exactly(target.owner if isinstance(target, Attribute) else ImportedName(path.rpartition(".")[0]))
            result = _register(runtime, kinds, types, made, _class_topics(interpreter, kinds))
    return result


def _register_factory(runtime: ObjectStub, arguments: Arguments, _line: int) -> Values:
    return _register(runtime, NOTHING, arguments.values_of("type", 0), arguments.values_of("agent_factory", 1), set())


def _subscribe(runtime: ObjectStub, arguments: Arguments, _line: int) -> Values:
    added = arguments.values_of("subscription", 0)
    topics = _subscriptions(added)
    agents = [each.arguments.values_of("agent_type", 1) for each in added.known if isinstance(each, CallResult)]
    names = agents[0].strings if len(agents) == 1 else None
    for agent in _agents(runtime).registered.values():
        if names is None or agent.name in names:
            agent.topics = None if topics is None or agent.topics is None else agent.topics | topics
    return UNKNOWN


def _publish(runtime: ObjectStub, arguments: Arguments, _line: int) -> Values:
    to = arguments.values_of("topic_id", 1)
    _agents(runtime).messages.append(_sent(arguments.values_of("message", 0), to, published=True))
    return UNKNOWN


def _send(runtime: ObjectStub, arguments: Arguments, _line: int) -> Values:
    to = arguments.values_of("recipient", 1)
    _agents(runtime).messages.append(_sent(arguments.values_of("message", 0), to, published=False))
    return UNKNOWN


RUNTIME = ClassStub("AgentRuntime", CORE, finish=_settle, suffix="Runtime", methods={
    "register_factory": _register_factory, "add_subscription": _subscribe, "publish_message": _publish,
    "send_message": _send,
})  # fmt: skip
AGENT = ClassStub("RoutedAgent", CORE, aliases=("BaseAgent", "ToolAgent"), methods={"register": lambda *_: UNKNOWN})


# --- graphs


def graph_of(runtime: ObjectStub, name: str) -> Graph | None:
    """The graph of the messages between the agents of a runtime; None if it has no agents."""
    network = _agents(runtime)
    if not network.registered:
        return None
    assembly = Assembly()
    firsts = network.messages or [Message()]
    starts = {start.name for first in firsts for start in network.receivers(first)}
    if not all(first.is_known for first in firsts):
        assembly.note("the source does not determine the first messages; they are assumed to go to any agent")
    entries = tuple(RegionEntry(start, "parallel" if len(starts) > 1 else "direct") for start in sorted(starts))
    for agent in network.registered.values():
        codes = [FunctionCode(runtime.interpreter.converter.function(handler)) for handler, _ in agent.handlers]
        asks, model = any(code.asks for code in codes), any(map(_calls_model, codes))
        kind: NodeKind = "human" if asks else "llm" if model or not codes else "passthrough"
        place = codes[0].place if codes else {}
        assembly.describe(agent.name, kind, agent.name, agent=agent.kind, tools_unknown=mark(_TOOLS), **place)
        starts |= {name for code in codes for name in _connect(assembly, network, agent, code)}
        if not codes and agent.kind != "ToolAgent":
            _deliver(assembly, network, agent, Message(), "its handlers are unknown")
            starts |= set(network.registered)
            network.ending[agent.name] = None
    exits = (RegionExit(name, "publishes nothing", conditional=True) for name in network.ending if name in starts)
    return assembly.graph(name, FRAMEWORK, Region(entries, tuple(exits), frozenset(network.registered)))


def _calls_model(code: FunctionCode) -> bool:
    return code.summary.calls_model or any(is_method(call, "create") for body in code.bodies for call in body.calls)


def _connect(assembly: Assembly, network: _Agents, agent: CoreAgent, code: FunctionCode) -> Iterator[str]:
    """Connects an agent with those that get the messages of a handler; yields those that get published ones."""
    arriving: set[ast.Call] = set()
    for body in code.bodies:
        for call, scope in _calls(body.function.tree, body.scope):
            message = _message(code, call, scope)
            if message is None:
                continue
            others = _deliver(
                assembly, network, agent, message, f"line {call.lineno}: the message or its recipient is unknown"
            )
            if message.published:
                arriving |= {call} if message.is_known and others else set()
                yield from others
    if code.body is None or not _always(getattr(code.body.function.tree, "body", []), arriving):
        network.ending[agent.name] = None


def _deliver(assembly: Assembly, network: _Agents, agent: CoreAgent, message: Message, why: str) -> list[str]:
    """Connects an agent with those that get one of its messages, and returns these."""
    others = [other.name for other in network.receivers(message, agent)]
    how = "publishes a message" if message.published else "sends a message"
    for other in others:
        assembly.connect([RegionExit(agent.name)], [RegionEntry(other, "parallel", how)])
        if not message.published:
            assembly.connect([RegionExit(other, "answers", conditional=True)], [RegionEntry(agent.name)])
    if not message.is_known:
        assembly.mark_unknown(agent.name, EDGES, why)
    return others


def _calls(tree: ast.AST, scope: NameScope) -> Iterator[tuple[ast.Call, NameScope]]:
    for node in ast.iter_child_nodes(tree):
        inner = LoopScope(node, scope) if isinstance(node, _COMPREHENSIONS) else scope
        if isinstance(node, ast.Call):
            yield node, inner
        yield from _calls(node, inner)


def _message(code: FunctionCode, call: ast.Call, scope: NameScope) -> Message | None:
    """The message that a call sends: any, if the agent is passed to code that is not read; None if it sends none."""
    arguments = code.evaluator.arguments(call, scope)
    if is_method(call, "publish_message", "send_message"):
        published = is_method(call, "publish_message")
        to = arguments.values_of("topic_id" if published else "recipient", 1)
        return _sent(arguments.values_of("message", 0), to, published=published, to_others=_has_own_key(call))
    passed = any(isinstance(part, ast.Name) and part.id == "self" for part in call.args)
    read = any(code.called_function(callee) for callee in code.evaluator.value(call.func, scope).known)
    asked = arguments.get("tool_agent_id")
    names = _names(asked) if asked is not None else None
    return Message(None, names, published=False) if passed and not read else None


def _has_own_key(call: ast.Call) -> bool:
    """Whether the topic has the key of the sender, which does not get its own messages."""
    topics = [part for part in ast.walk(call) if isinstance(part, ast.Call) and "TopicId" in ast.unparse(part.func)]
    sources = [keyword.value for topic in topics for keyword in topic.keywords if keyword.arg == "source"]
    sources += [topic.args[1] for topic in topics if len(topic.args) > 1]
    return len(topics) == 1 and all(ast.unparse(source) in _OWN_KEYS for source in sources)


def _always(body: list[ast.stmt], calls: set[ast.Call]) -> bool:
    """Whether every run of a block that does not raise makes one of the calls."""
    for statement in body:
        inner = statement.body if isinstance(statement, ast.With | ast.AsyncWith) else []
        both = isinstance(statement, ast.If) and _always(statement.body, calls) and _always(statement.orelse, calls)
        simple = not hasattr(statement, "body") and any(part in calls for part in ast.walk(statement))
        if simple or both or _always(inner, calls):
            return True
        if any(isinstance(part, ast.Return) for part in ast.walk(statement)):
            return False
    return False
