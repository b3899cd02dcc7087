"""Looks into the functions of a workflow, and into what they call: whom they ask, and where they lead.

Nothing is run. Where a function's source is not to be had, its compiled code still says which names it uses.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from guardagent.workflow.python_source.evaluation import declared
from guardagent.workflow.python_source.evaluation.attributes import call_method, wrapped_by
from guardagent.workflow.python_source.evaluation.evaluate import Evaluator
from guardagent.workflow.python_source.evaluation.flow import Flow, Point
from guardagent.workflow.python_source.evaluation.scope import LiveScope, LoopScope, statements
from guardagent.workflow.python_source.evaluation.values import (
    NOTHING,
    Applied,
    Arguments,
    Attribute,
    Class,
    Function,
    FunctionTree,
    Imported,
    Instance,
    Made,
    Scope,
    Sequence,
    StandIn,
    Table,
    Values,
    is_called,
    path_of,
    text,
)
from guardagent.workflow.python_source.functions.unseen import RUNS, foreign, runs_unseen

PARENT = "__parent__"
MOST_VISITS = 2_000

_ASKS = {
    ("getpass", "getpass"), ("getpass", "unix_getpass"), ("getpass", "win_getpass"), ("click", "prompt"),
    ("click", "confirm"), ("typer", "prompt"), ("typer", "confirm"), ("rich", "ask"), ("questionary", "ask"),
}  # fmt: skip
_INTERRUPTS = ("interrupt", "NodeInterrupt", "GraphInterrupt")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_LIBRARIES = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")} - {None}
)  # fmt: skip


class Use(NamedTuple):
    """That a method of an object is called.

    Attributes:
        owner: the object, or what stands for one that only exists when the program runs.
        method: the name of the method.
        asked: on every path to the call a person has been asked before.
        sure: every run of the function comes to the call, unless it raises.
        direct: it is called as a method of the object, and not by another name.
    """

    owner: object
    method: str
    asked: bool = False
    sure: bool = True
    direct: bool = True


@dataclass(frozen=True)
class Body:
    """What is known of a function, with all that it calls.

    Attributes:
        file: where the function is defined; None where that is not known.
        line: where in it.
        interrupts: it calls LangGraph's `interrupt`.
        asks_for_input: it calls `input`, or another function that asks at the terminal.
        always_asks: a person is asked whatever way it takes.
        goto: the nodes that its commands lead to; None where that cannot be known.
        parent_goto: the same, of the commands for the graph around it.
        sends: the nodes that it sends to by `Send`; there can be others where `sends_elsewhere`.
        known_goto: those of its commands' targets that are known, whether or not there are others.
        returns: the texts that it can return, one by one or in a list; None where that cannot be known.
        known_returns: those of the texts that are known, whether or not there are others.
        declared: the texts that it is declared to return, by `Literal` or an enumeration.
        declared_goto: the texts in its annotation `Command[Literal[...]]`.
        asked_goto: the nodes to which it returns commands only where a person has been asked.
        commands_only: whatever it returns is a command.
        uses: the objects whose methods it calls.
        returned: all that is known of the values that it can return.
        unknown: what could not be known, in words.
        calls: what it calls, as it is written.
        source_known: its source could be read.
        unseen: the calls of which it cannot be seen what they run, in words.
    """

    file: str | None = None
    line: int | None = None
    interrupts: bool = False
    asks_for_input: bool = False
    always_asks: bool = False
    goto: frozenset[str] | None = frozenset()
    parent_goto: frozenset[str] | None = frozenset()
    sends: frozenset[str] = frozenset()
    sends_elsewhere: bool = False
    known_goto: frozenset[str] = frozenset()
    returns: frozenset[str] | None = None
    known_returns: frozenset[str] = frozenset()
    declared: frozenset[str] = frozenset()
    declared_goto: frozenset[str] = frozenset()
    asked_goto: frozenset[str] = frozenset()
    commands_only: bool = False
    uses: tuple[Use, ...] = ()
    returned: Values = NOTHING
    unknown: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    source_known: bool = True
    unseen: tuple[str, ...] = ()

    @property
    def asks(self) -> bool:
        """A person is asked."""
        return self.interrupts or self.asks_for_input

    def unseen_by(self, *own: str) -> tuple[str, ...]:
        """What it runs that cannot be seen by an extractor that knows the objects of some packages, in words."""
        found = {use.method: foreign(use.owner, own) for use in self.uses if use.method in RUNS - {"__call__"}}
        return (*self.unseen, *(f"what {name} of {package} runs" for name, package in found.items() if package))


def unseen_in(function: object) -> tuple[str, ...]:
    """What a tool's function, or one around an agent, runs that no extractor follows; nothing of a library's own."""
    inner = _innermost(function)
    if isinstance(inner, FunctionType) and inner.__code__.co_filename.startswith(_LIBRARIES):
        return ()
    body = look_into(function)
    if not body.source_known and not body.unseen:
        return ("; ".join(body.unknown) or "its code is not to be had",)
    return body.unseen_by()


class Readable(StandIn):
    """What stands for a function of which there is only code."""

    given = Arguments()
    """The arguments that it is given already."""

    def body(self, given: Arguments | None = None) -> Body:
        """What is known of it, called with some arguments."""
        raise NotImplementedError

    def place(self) -> tuple[str | None, int | None]:
        """Where it is defined."""
        raise NotImplementedError

    def shown(self, value: object) -> object:
        """What a value in its code is to an extractor: of a function that can be read, again one of this kind."""
        return value

    def readable(self) -> tuple[Evaluator, Function | None]:
        """Its code, with what can work out what is in it."""
        raise NotImplementedError


def look_into(function: object) -> Body:
    """Looks into a function, a method, a partial function or an object that can be called."""
    if isinstance(function, Readable):
        return function.body()
    given = Arguments()
    while isinstance(function, functools.partial):
        given = _partial_arguments(function, given)
        function = function.func
    if isinstance(function, MethodType):
        given = Arguments((Values((function.__self__,)), *given.positional), given.keywords)
        function = function.__func__
    if isinstance(function, Readable):
        return function.body(given)
    if isinstance(function, FunctionType):
        return _look(function, given)
    if isinstance(function, type):
        inner: object = _constructor(function)
    else:
        inner = call_method(function) or wrapped_by(function)
    return look_into(inner) if inner is not None else Body(source_known=False)


def look_into_code(function: Function, evaluator: Evaluator, arguments: Arguments | None = None) -> Body:
    """Looks into a function of which there is only the code."""
    evaluator.begin_anew()
    look = Look(evaluator)
    look.visit(function, arguments or Arguments())
    returned = evaluator.returned(function, arguments or Arguments())
    return look.body(function, function, returned)


def definition(function: object) -> tuple[str | None, int | None]:
    """Where a function or the class of an object is defined: the innermost one, if it is wrapped."""
    if isinstance(function, Readable):
        return function.place()
    function = _innermost(function)
    if isinstance(function, Readable):
        return function.place()
    if not isinstance(function, FunctionType):
        method = call_method(function)
        if method is None:
            return _class_definition(function)
        function = _innermost(method)
    assert isinstance(function, FunctionType)
    return function.__code__.co_filename, _line_of(function)


def _innermost(function: object) -> object:
    """What a partial function, a method or a wrapper is made of."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif isinstance(function, MethodType):
            function = function.__func__
        elif (wrapped := wrapped_by(function)) is not None:
            function = wrapped
        else:
            return function


def _line_of(function: FunctionType) -> int:
    readable = Evaluator().function(function)
    return readable.tree.lineno if readable else function.__code__.co_firstlineno


def _class_definition(value: object) -> tuple[str | None, int | None]:
    kind = value if isinstance(value, type) else type(value)
    try:
        return inspect.getsourcefile(kind), inspect.getsourcelines(kind)[1]
    except (OSError, TypeError):
        return None, None


def _constructor(kind: type) -> FunctionType | None:
    found = inspect.getattr_static(kind, "__init__", None)
    return found if isinstance(found, FunctionType) else None


def _partial_arguments(function: functools.partial[Any], given: Arguments) -> Arguments:
    positional = (*(Values((one,)) for one in function.args), *given.positional)
    return Arguments(
        positional, {**{name: Values((one,)) for name, one in function.keywords.items()}, **given.keywords}
    )


def _look(function: FunctionType, given: Arguments) -> Body:
    evaluator = Evaluator(follow=functools.partial(follows, function))
    readable = evaluator.function(function)
    look = Look(evaluator)
    if readable is None:
        look.visit_compiled(function)
        return look.body(function, None, NOTHING)
    look.visit(readable, given)
    wrapped = getattr(function, "__wrapped__", None)
    if isinstance(wrapped, FunctionType):
        look.follow(wrapped, Arguments())
    return look.body(function, readable, evaluator.returned(readable, given))


def _package_of(function: FunctionType) -> str:
    return (function.__module__ or "").partition(".")[0]


def follows(root: FunctionType, function: FunctionType) -> bool:
    """Whether what a function calls is to be looked into: the code of its own program is, that of libraries is not."""
    return _package_of(function) == _package_of(root) or not function.__code__.co_filename.startswith(_LIBRARIES)


def asks_by(target: object) -> str | None:
    """By which means a call asks a person; None where it does not."""
    if any(is_called(target, "langgraph", name) for name in _INTERRUPTS):
        return "interrupt"
    path = path_of(target).split(".")
    return "input" if path in (["builtins", "input"], ["_io", "input"]) or (path[0], path[-1]) in _ASKS else None


_ALWAYS, _LOOSE = Point(), Point(sure=False)


@dataclass(eq=False)
class Look:
    """Goes through a function and what it calls, and collects what matters."""

    evaluator: Evaluator
    goto: set[str] = field(default_factory=set)
    parent_goto: set[str] = field(default_factory=set)
    sends: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    uses: list[Use] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)
    interrupts: bool = False
    asks_for_input: bool = False
    always_asks: bool = False
    _seen: set[object] = field(default_factory=set)
    _trees: set[int] = field(default_factory=set)
    _called: set[int] = field(default_factory=set)
    _flows: dict[int, Flow | None] = field(default_factory=dict)

    def body(self, function: FunctionType | Function, readable: Function | None, returned: Values) -> Body:
        """What was found of a function."""
        parts = declared.returned(self.evaluator, function)
        names = Names.of(returned)
        for command in names.commands:
            self._command(command)
        file, line = _place(function)
        return Body(
            file, line, self.interrupts, self.asks_for_input, self.always_asks,
            goto=None if "goto" in self.open else frozenset(self.goto),
            parent_goto=None if "parent_goto" in self.open else frozenset(self.parent_goto),
            sends=frozenset(self.sends) | names.sends,
            sends_elsewhere="sends" in self.open,
            known_goto=frozenset(self.goto),
            known_returns=names.texts,
            returns=frozenset(names.texts) if readable and names.complete else None,
            declared=_literals(parts, in_command=False),
            declared_goto=_literals(parts, in_command=True),
            asked_goto=self._asked_goto(readable) if readable else frozenset(),
            commands_only=_only_commands(parts) or (names.complete and names.is_commands),
            uses=tuple(self.uses), returned=returned,
            unknown=tuple(self.unknown), calls=tuple(dict.fromkeys(self.calls)),
            source_known=readable is not None, unseen=tuple(dict.fromkeys(self.unseen)),
        )  # fmt: skip

    def visit(self, function: Function, arguments: Arguments, point: Point = _ALWAYS) -> None:
        """Goes through one function, called at some point with some arguments."""
        key = (id(function.tree), _signature(arguments), point)
        if key in self._seen:
            return
        if len(self._seen) > MOST_VISITS:
            self.unknown.append("it calls too many functions to look into all of them")
            self.unseen.append("it calls too many functions to look into all of them")
            return
        is_first = not self._seen
        self._seen.add(key)
        self._trees.add(id(function.tree))
        scope = self.evaluator.inside(function, arguments)
        flow = self._flow(function, scope)
        if is_first:
            self.always_asks = flow is not None and flow.always_asks
        inner = list(self._walk(function.tree, scope, flow, point))
        for tree, where in inner:
            if id(tree) not in self._trees:  # never called by its name: it may be called by whom it is given to
                self.visit(Function(tree, where), Arguments(open=True), _LOOSE)

    def _asked_goto(self, function: Function) -> frozenset[str]:
        scope = self.evaluator.inside(function, Arguments(open=True))
        flow, asked, unasked = self._flows.get(id(function.tree)), set[str](), set[str]()
        for node in statements(function.tree):
            if isinstance(node, ast.Return) and flow is not None and id(node) in flow.returns:
                names = Names.of(self.evaluator.value(node.value, scope))
                led = [Names.of(goto) for one in names.commands if (goto := _command_parts(one)[0]) is not None]
                if not all(one.complete and not one.sends and not one.sends_elsewhere for one in (names, *led)):
                    return frozenset()
                (asked if flow.returns[id(node)] else unasked).update(*(one.texts for one in led))
        return frozenset(asked - unasked)

    def _flow(self, function: Function, scope: Scope) -> Flow | None:
        """The paths through a function; None while they are being worked out."""
        key = id(function.tree)
        if key not in self._flows:
            self._flows[key] = None
            self._flows[key] = Flow.through(function.tree, lambda call: self._always_asks(call, scope))
        return self._flows[key]

    def _always_asks(self, call: ast.Call, scope: Scope) -> bool:
        callee = self.evaluator.value(call.func, scope)
        return bool(callee.known) and callee.complete and all(self._surely_asks(one) for one in callee.known)

    def _surely_asks(self, target: object) -> bool:
        """Whether calling something asks a person, whatever happens in it."""
        if asks_by(target) is not None:
            return True
        if isinstance(target, Applied):
            return self._surely_asks(target.function)
        if isinstance(target, FunctionType) and self.evaluator.follow(target):
            target = self.evaluator.function(target)
        if not isinstance(target, Function):
            return False
        flow = self._flow(target, self.evaluator.inside(target, Arguments(open=True)))
        return flow is not None and flow.always_asks

    def _walk(
        self, tree: ast.AST, scope: Scope, flow: Flow | None, start: Point
    ) -> Iterator[tuple[FunctionTree, Scope]]:
        """Goes through the code of a function, and gives the functions defined in it."""
        for node in statements(tree):
            if isinstance(node, FunctionTree):
                yield node, scope
            elif isinstance(node, _COMPREHENSIONS):
                inner = LoopScope(node, scope)
                for child in ast.iter_child_nodes(node):
                    yield from self._walk(child, inner, flow, start)
            elif isinstance(node, ast.Call):
                here = flow.calls.get(id(node), _LOOSE) if flow else _LOOSE
                self._call(node, scope, Point(start.asked or here.asked, start.sure and here.sure))
            elif isinstance(node, ast.Attribute) and node.attr in RUNS and id(node) not in self._called:
                for one in self.evaluator.value(node.value, scope).known:  # the method may be called from elsewhere
                    if not isinstance(one, ModuleType):
                        self.uses.append(Use(one, node.attr, sure=False, direct=False))
            elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Name | ast.Attribute):
                self._target(self.evaluator.value(node.exc, scope), Arguments(), start)

    def _call(self, node: ast.Call, scope: Scope, point: Point) -> None:
        self.calls.append(ast.unparse(node.func))
        self._called.add(id(node.func))
        callee = self.evaluator.value(node.func, scope)
        if runs_unseen(node, callee, self.evaluator, scope):
            self.unseen.append(f"line {node.lineno}: what {self.calls[-1]} runs")
        self._target(callee, self.evaluator.arguments(node, scope), point)
        for made in self.evaluator.value(node, scope).known:
            self._made(made)
        if isinstance(node.func, ast.Attribute):
            found = self.evaluator.value(node.func.value, scope).known
            owners = [one for one in found if not isinstance(one, ModuleType)]
            sure = point.sure and len(owners) == 1
            self.uses.extend(Use(one, node.func.attr, point.asked, sure) for one in owners)
        else:
            self.uses.extend(Use(*one, point.asked, sure=False, direct=False) for one in _bound(callee))

    def _target(self, callee: Values, arguments: Arguments, point: Point) -> None:
        for target in callee.known:
            self.follow(target, arguments, point if len(callee.known) == 1 else Point(point.asked, sure=False))
        for argument in (*arguments.positional, *arguments.keywords.values()):
            for one in argument.known:
                if isinstance(one, Function | FunctionType | Applied | MethodType | functools.partial):
                    self.follow(one, Arguments(open=True), Point(point.asked, sure=False))

    def follow(self, target: object, arguments: Arguments, point: Point = _ALWAYS) -> None:
        """Goes into what is called."""
        if isinstance(target, Applied):
            first = target.arguments
            self.follow(target.function, Arguments(
                first.positional + arguments.positional, {**first.keywords, **arguments.keywords}, arguments.open,
            ), point)  # fmt: skip
        elif isinstance(target, functools.partial):
            self.follow(target.func, _partial_arguments(target, arguments), point)
        elif isinstance(target, MethodType):
            bound = (Values((target.__self__,)), *arguments.positional)
            self.follow(target.__func__, Arguments(bound, arguments.keywords, arguments.open), point)
        elif isinstance(target, Function):
            self.visit(target, arguments, point)
        elif not self._asks(target):
            self._follow_live(target, arguments, point)

    def _asks(self, target: object) -> bool:
        """Whether the call asks a person."""
        how = asks_by(target)
        self.interrupts = self.interrupts or how == "interrupt"
        self.asks_for_input = self.asks_for_input or how == "input"
        return how is not None

    def _follow_live(self, target: object, arguments: Arguments, point: Point) -> None:
        if isinstance(target, FunctionType):
            if not self.evaluator.follow(target):
                wrapped = getattr(target, "__wrapped__", None)
                if isinstance(wrapped, FunctionType):
                    self.follow(wrapped, arguments, point)
            elif readable := self.evaluator.function(target):
                self.visit(readable, arguments, point)
            else:
                self.visit_compiled(target)
        elif not isinstance(target, type | str | Imported | Made):
            self.uses.append(Use(target, "__call__", point.asked, point.sure))
            if (inner := self.evaluator.called(target)) is not None:
                self.follow(inner, arguments, point)

    def visit_compiled(self, function: FunctionType) -> None:
        """Looks at the names that a function's compiled code uses, where its source is not to be had."""
        if function in self._seen:
            return
        self._seen.add(function)
        self.unknown.append(f"the source of {function.__qualname__} is not to be had")
        self.unseen.append(self.unknown[-1])
        scope = LiveScope.of(function)
        for name in dict.fromkeys(_names_in(function.__code__)):
            for one in self.evaluator.name(name, scope).known:
                self._named(one)

    def _named(self, one: object) -> None:
        if is_called(one, "langgraph", "Command"):
            self.open |= {"goto", "parent_goto"}
        elif is_called(one, "langgraph", "Send"):
            self.open.add("sends")
        elif isinstance(one, FunctionType | MethodType) or path_of(one) == "builtins.input":
            self.follow(one, Arguments(open=True))

    def _made(self, made: object) -> None:
        """Takes down a command or a sending that is made."""
        if not isinstance(made, Made):
            return
        if is_called(made.maker, "langgraph", "Command"):
            self._command(made)
        elif is_called(made.maker, "langgraph", "Send"):
            self._sent(Names.of(Values((made,))), made.line)

    def _command(self, command: object) -> None:
        goto, graph = _command_parts(command)
        if goto is None:
            return
        names = Names.of(goto)
        line = getattr(command, "line", 0)
        if _may_be_own(graph):
            self._takes("goto", self.goto, names, line)
            self._sent(names, line)
        if _may_be_parent(graph):
            self._takes("parent_goto", self.parent_goto, names, line)
            self.parent_goto |= names.sends

    def _takes(self, which: str, into: set[str], names: Names, line: int) -> None:
        into |= names.texts
        if not names.complete:
            self.open.add(which)
            self.unknown.append(f"line {line}: where a command leads to")

    def _sent(self, names: Names, line: int) -> None:
        self.sends |= names.sends
        if names.sends_elsewhere:
            self.open.add("sends")
            self.unknown.append(f"line {line}: where something is sent to")


def _bound(callee: Values) -> Iterator[tuple[object, str]]:
    """The objects and the names of the methods by which a call that names neither may run something."""
    for one in callee.known:
        if isinstance(one, Attribute) and one.name in RUNS:
            yield one.owner, one.name
        elif isinstance(one, Applied) and isinstance(one.function, FunctionType) and one.function.__name__ in RUNS:
            owners = one.arguments.positional[0].known if one.arguments.positional else ()
            yield from ((owner, one.function.__name__) for owner in owners)


@dataclass(frozen=True)
class Names:
    """The names of nodes among some values, one by one or in a list.

    Attributes:
        texts: the texts.
        sends: the nodes of the sendings; there can be others where `sends_elsewhere`.
        commands: the commands.
        complete: there are no other texts.
        is_commands: there are commands, and nothing else.
    """

    texts: frozenset[str] = frozenset()
    sends: frozenset[str] = frozenset()
    sends_elsewhere: bool = False
    commands: tuple[object, ...] = ()
    complete: bool = True
    is_commands: bool = False

    @classmethod
    def of(cls, values: Values) -> Names:
        every = list(_flat(values))
        sends = [_send_target(one) for one in every if _is_one(one, "Send")]
        commands = tuple(one for one in every if _is_one(one, "Command"))
        sent = [one.strings for one in sends]
        return cls(
            frozenset(text(one) for one in every if isinstance(one, str)),
            frozenset(text(one) for target in sends for one in target.known if isinstance(one, str)),
            any(one is None for one in sent),
            commands,
            all(_is_told(one) for one in every),
            bool(every) and len(commands) == len(every),
        )


_MORE: Any = object()


def _flat(values: Values) -> Iterator[object]:
    """All values, with those in lists; something that is not told where there can be others."""
    for one in values.known:
        if isinstance(one, Sequence):
            for item in one.items:
                yield from _flat(item)
        elif isinstance(one, list | tuple | set | frozenset) and not _is_one(one, "Command"):
            for item in one:
                yield from _flat(Values((item,)))
        else:
            yield one
    if not values.complete:
        yield _MORE


def _is_told(one: object) -> bool:
    """Whether it is certain that a value is no text that is not known."""
    if one is _MORE or isinstance(one, Instance | Imported | Applied):
        return False
    if isinstance(one, Made):
        kind = one.maker
        if isinstance(kind, Imported):
            return kind.path.rpartition(".")[2][:1].isupper()
        return isinstance(kind, Class) or (isinstance(kind, type) and not issubclass(kind, str))
    return type(one).__name__ != "Attribute" or isinstance(one, Table)


def _is_one(one: object, name: str) -> bool:
    """Whether a value is a command, or a sending, of LangGraph: a live one, or one that the code makes."""
    return is_called(one.maker if isinstance(one, Made) else type(one), "langgraph", name)


def _send_target(send: object) -> Values:
    if isinstance(send, Made):
        return send.arguments.get("node", 0) or Values(complete=False)
    return Values((getattr(send, "node", None),))


def _command_parts(command: object) -> tuple[Values | None, Values]:
    """Where a command leads to, and of which graph that is."""
    if isinstance(command, Made):
        return command.arguments.get("goto"), command.arguments.get("graph") or Values((None,))
    return Values((getattr(command, "goto", ()),)), Values((getattr(command, "graph", None),))


def _may_be_own(graph: Values) -> bool:
    return not graph.complete or any(one is None or one != PARENT for one in graph.known)


def _may_be_parent(graph: Values) -> bool:
    return not graph.complete or PARENT in [one for one in graph.known if isinstance(one, str)]


def _literals(parts: list[declared.Part], *, in_command: bool) -> frozenset[str]:
    found = [one.values for one in parts if one.values is not None and ("Command" in one.within) == in_command]
    return frozenset(text(one) for values in found for one in values.known if isinstance(one, str))


def _only_commands(parts: list[declared.Part]) -> bool:
    return bool(parts) and all(
        "Command" in part.within or is_called(part.type, "langgraph", "Command") for part in parts
    )  # fmt: skip


def _signature(arguments: Arguments) -> object:
    positional = tuple(_key(one) for one in arguments.positional)
    return positional, tuple((name, _key(one)) for name, one in sorted(arguments.keywords.items())), arguments.open


def _key(values: Values) -> object:
    return tuple(one if isinstance(one, str) else id(one) for one in values.known), values.complete


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _place(function: FunctionType | Function) -> tuple[str | None, int | None]:
    if isinstance(function, Function):
        return function.file or None, function.tree.lineno
    return definition(function)
