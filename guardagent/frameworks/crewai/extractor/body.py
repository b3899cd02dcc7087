"""What the body of a flow's method does, in which order: it runs crews, agents, tools and flows, and asks people.

The code is gone through as it would run, and every branch is taken; what a loop holds can come again. What matters on
the way is a step; from each step it is known which can come next.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any, Literal

from guardagent.frameworks.crewai.extractor.objects import OPEN, Reader, is_kind
from guardagent.workflow.python_source.evaluation.scope import LoopScope
from guardagent.workflow.python_source.evaluation.values import Applied, Arguments, Function, Scope, exactly, path_of
from guardagent.workflow.python_source.functions.bodies import Readable

StepKind = Literal["person", "model", "tool", "agent", "task", "crew", "flow"]
Key = tuple[object, ...]

BEGIN: Key = ("begin",)
MOST_CALLS = 8
MOST_STEPS = 400

_STARTS = frozenset(
    f"{prefix}kickoff{suffix}" for prefix in ("", "a") for suffix in ("", "_async", "_for_each", "_for_each_async")
)
_EACH = "for_each"
_DOES: tuple[tuple[StepKind, tuple[str, ...], frozenset[str]], ...] = (
    ("crew", ("Crew",), _STARTS),
    ("flow", ("Flow",), _STARTS),
    ("agent", ("BaseAgent", "Agent", "LiteAgent"), _STARTS | {"execute_task", "aexecute_task"}),
    ("task", ("Task",), frozenset({"execute_sync", "execute_async", "aexecute_sync"})),
    ("tool", ("BaseTool", "CrewStructuredTool"), frozenset({"run", "arun", "_run", "_arun", "invoke", "ainvoke"})),
    ("model", ("BaseLLM", "LLM"), frozenset({"call", "acall"})),
    ("person", ("Flow",), frozenset({"ask"})),
)
_ASKS = {"builtins.input", "getpass.getpass", "click.prompt", "click.confirm", "typer.prompt", "typer.confirm"}
_MODELS = (".completions.create", ".responses.create", ".messages.create", "litellm.completion", "litellm.acompletion")
_LOOPS = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


@dataclass(frozen=True, eq=False)
class Step:
    """Something that a body does; `thing` is what is run, or OPEN."""

    kind: StepKind
    thing: Any
    line: int


@dataclass
class Steps:
    """The steps of a body.

    Attributes:
        found: each step by its key.
        links: which step can come right after which; after BEGIN, which first.
        beside: those of the links that are taken together with others.
        ends: after which the body can end; BEGIN, where it can do nothing.
        known: the code could be read.
    """

    found: dict[Key, Step] = field(default_factory=dict)
    links: set[tuple[Key, Key]] = field(default_factory=set)
    beside: set[tuple[Key, Key]] = field(default_factory=set)
    ends: set[Key] = field(default_factory=set)
    known: bool = True

    def without(self, drop: Callable[[Step], bool]) -> Steps:
        """The same without some steps: what came before them leads to what came after."""
        rest = Steps(dict(self.found), set(self.links), set(self.beside), set(self.ends), self.known)
        for key in [key for key, step in self.found.items() if drop(step)]:
            before = {one for one, other in rest.links if other == key} - {key}
            after = {other for one, other in rest.links if one == key} - {key}
            rest.links = {link for link in rest.links if key not in link}
            through = {(one, other) for one in before for other in after}
            rest.links |= through
            rest.beside |= {link for link in through if {(link[0], key), (key, link[1])} & rest.beside}
            rest.ends |= before if key in rest.ends else set()
            rest.ends.discard(key)
            del rest.found[key]
        return rest

    @property
    def in_order(self) -> list[tuple[Key, Key]]:
        """The links, in the order in which the code comes to them."""
        places = {key: place for place, key in enumerate((BEGIN, *self.found))}
        return sorted(self.links, key=lambda link: (places[link[0]], places[link[1]]))

    @property
    def last(self) -> list[Key]:
        """The steps after which the body can end."""
        return [key for key in self.found if key in self.ends]

    @property
    def kinds(self) -> set[StepKind]:
        return {step.kind for step in self.found.values()}

    def always(self, kind: StepKind) -> bool:
        """Whether every way through the body comes to a step of a kind."""
        seen, pending = {BEGIN}, [BEGIN]
        while pending:
            here = pending.pop()
            if here in self.ends:
                return False
            for one, other in self.links:
                if one == here and other not in seen and self.found[other].kind != kind:
                    seen.add(other)
                    pending.append(other)
        return True

    @property
    def is_straight(self) -> bool:
        """Whether it is one step, taken once, whatever happens."""
        return len(self.found) == 1 and self.links == {(BEGIN, next(iter(self.found)))} and BEGIN not in self.ends


def steps_of(reader: Reader, function: FunctionType | Readable, owner: object) -> Steps:
    """The steps of a method of some owner."""
    readable = reader.function(function)
    if readable is None:
        return Steps(ends={BEGIN}, known=False)
    walk = Walk(reader)
    walk.function(readable, Arguments((exactly(owner),), open=True))
    walk.steps.ends = set(walk.front)
    return walk.steps


@dataclass
class _Loop:
    breaks: set[Key] = field(default_factory=set)
    again: set[Key] = field(default_factory=set)


class Walk:
    """Goes through code; `front` are the steps after which it can stand where it is."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.steps = Steps()
        self.front: set[Key] = {BEGIN}
        self._returns: list[set[Key]] = []
        self._loops: list[_Loop] = []
        self._tries: list[set[Key]] = []
        self._path: tuple[int, ...] = ()
        self._inside: list[ast.AST] = []

    def function(self, function: Function, arguments: Arguments) -> None:
        """Goes through a function that is called here."""
        if function.tree in self._inside or len(self._inside) >= MOST_CALLS or len(self.steps.found) > MOST_STEPS:
            return
        scope = self.reader.inside(function, arguments)
        loops, self._loops = self._loops, []
        self._returns.append(set())
        self._inside.append(function.tree)
        if isinstance(function.tree, ast.Lambda):
            self._visit(function.tree.body, scope)
        else:
            self._block(function.tree.body, scope)
        self._inside.pop()
        self.front |= self._returns.pop()
        self._loops = loops

    # Statements.

    def _block(self, body: Iterable[ast.stmt], scope: Scope) -> None:
        for statement in body:
            if not self.front:
                return
            self._statement(statement, scope)

    def _statement(self, node: ast.stmt, scope: Scope) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return
            case ast.If(test=test, body=body, orelse=orelse):
                self._visit(test, scope)
                self._branches(lambda: self._block(body, scope), lambda: self._block(orelse, scope))
            case ast.For(iter=several) | ast.AsyncFor(iter=several):
                self._visit(several, scope)
                self._loop(None, node, scope)
            case ast.While(test=test):
                self._loop(test, node, scope)
            case ast.Try():
                self._try(node, scope)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    self._visit(item.context_expr, scope)
                self._block(body, scope)
            case ast.Match(subject=subject):
                self._visit(subject, scope)
                self._match(node, scope)
            case _:
                self._visit_all(node, scope)
                self._leave(node)

    def _leave(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Return):
            self._returns[-1] |= self.front
        elif isinstance(node, ast.Break) and self._loops:
            self._loops[-1].breaks |= self.front
        elif isinstance(node, ast.Continue) and self._loops:
            self._loops[-1].again |= self.front
        elif not isinstance(node, ast.Raise):
            return
        self.front = set()

    def _branches(self, *ways: Callable[[], None]) -> None:
        before, after = set(self.front), set[Key]()
        for way in ways:
            self.front = set(before)
            way()
            after |= self.front
        self.front = after

    def _beside(self, ways: list[Callable[[], None]]) -> None:
        """What runs together: each begins where this one stands."""
        before, links = set(self.front), set(self.steps.links)
        self._branches(*ways)
        begun = {(one, other) for one, other in self.steps.links - links if one in before}
        self.steps.beside |= begun if len(begun) > 1 else set()

    def _loop(self, test: ast.expr | None, node: ast.For | ast.AsyncFor | ast.While, scope: Scope) -> None:
        endless = isinstance(test, ast.Constant) and bool(test.value)
        left = set[Key]()
        for _ in range(2):  # the second time leads from its end to its beginning
            self._visit(test, scope)
            left |= set() if endless else self.front
            self._loops.append(_Loop())
            self._block(node.body, scope)
            done = self._loops.pop()
            left |= done.breaks
            self.front |= done.again
        self.front = left if endless else left | self.front
        self._block(node.orelse, scope)

    def _try(self, node: ast.Try, scope: Scope) -> None:
        self._tries.append(set(self.front))
        self._block(node.body, scope)
        reached = self._tries.pop()
        self._block(node.orelse, scope)
        after = set(self.front)
        for handler in node.handlers:
            self.front = set(reached)
            self._block(handler.body, scope)
            after |= self.front
        self.front = after
        self._block(node.finalbody, scope)

    def _match(self, node: ast.Match, scope: Scope) -> None:
        takes_all = any(isinstance(one.pattern, ast.MatchAs) and one.pattern.pattern is None for one in node.cases)
        ways = [functools.partial(self._block, case.body, scope) for case in node.cases]
        self._branches(*ways, *([] if takes_all else [lambda: None]))

    # Expressions, in the order in which they are worked out.

    def _visit_all(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            self._visit(child, scope)

    def _visit(self, node: ast.AST | None, scope: Scope) -> None:
        match node:
            case None | ast.Lambda():
                return
            case ast.Call(func=ast.Attribute(attr="gather")):  # one beside the other
                self._beside([functools.partial(self._visit, one, scope) for one in node.args])
            case ast.Call():
                self._visit_all(node, scope)
                self._call(node, scope)
            case ast.BoolOp(values=[first, *rest]):
                self._visit(first, scope)
                for one in rest:
                    self._branches(functools.partial(self._visit, one, scope), lambda: None)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self._visit(test, scope)
                self._branches(lambda: self._visit(body, scope), lambda: self._visit(orelse, scope))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self._comprehension(node, scope)
            case _:
                self._visit_all(node, scope)

    def _comprehension(self, node: _LOOPS, scope: Scope) -> None:
        self._visit(node.generators[0].iter, scope)
        inner = LoopScope(node, scope)
        left = set(self.front)
        for _ in range(2):
            for child in ast.iter_child_nodes(node):
                self._visit_all(child, inner) if isinstance(child, ast.comprehension) else self._visit(child, inner)
            left |= self.front
        self.front = left

    # Calls.

    def _call(self, node: ast.Call, scope: Scope) -> None:
        ways = list(self._ways(node, scope))
        if ways:
            self._branches(*ways)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            handed = list(self._handed_on(argument, scope))
            if handed and not ways:  # it may be called by whom it is given to
                self._branches(*handed, lambda: None)

    def _ways(self, node: ast.Call, scope: Scope) -> Iterator[Callable[[], None]]:
        """What a call can do, of what matters."""
        written = ast.unparse(node.func)
        owners = self._owners(node.func, scope)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        steps = [(kind, owner) for owner in owners for kind in [_does(owner, name)] if kind]
        if steps or name in _STARTS or written.endswith(_MODELS):
            unknown: StepKind = "crew" if name in _STARTS else "model"
            for number, (kind, owner) in enumerate(steps or [(unknown, OPEN)]):
                key = (*self._path, id(node), number)
                yield functools.partial(self._step, key, Step(kind, owner, node.lineno), again=_EACH in name)
            return
        arguments = self.reader.arguments(node, scope)
        for target in self.reader.value(node.func, scope).known:
            yield from self._into(target, arguments, node)

    def _owners(self, function: ast.AST, scope: Scope) -> tuple[Any, ...]:
        return self.reader.value(function.value, scope).known if isinstance(function, ast.Attribute) else ()

    def _handed_on(self, node: ast.AST, scope: Scope) -> Iterator[Callable[[], None]]:
        """What a function does that is passed to another one."""
        if isinstance(node, ast.Attribute):
            for number, owner in enumerate(self._owners(node, scope)):
                if kind := _does(owner, node.attr):
                    yield functools.partial(self._step, (*self._path, id(node), number), Step(kind, owner, node.lineno))
        if isinstance(node, ast.Attribute | ast.Name | ast.Lambda):
            for target in self.reader.value(node, scope).known:
                yield from self._into(target, Arguments(open=True), node)

    def _into(self, target: object, arguments: Arguments, node: ast.AST) -> Iterator[Callable[[], None]]:
        """What a function of the program does that is called."""
        if path_of(target) in _ASKS:
            key = (*self._path, id(node))
            yield functools.partial(self._step, key, Step("person", None, getattr(node, "lineno", 0)))
            return
        function, given = _underlying(target, arguments)
        if isinstance(function, Readable) or (isinstance(function, FunctionType) and self.reader.follow(function)):
            function = self.reader.function(function)
        if isinstance(function, Function):
            yield functools.partial(self._enter, function, given, node)

    def _enter(self, function: Function, arguments: Arguments, node: ast.AST) -> None:
        path = self._path
        self._path = (*path, id(node))
        self.function(function, arguments)
        self._path = path

    def _step(self, key: Key, step: Step, *, again: bool = False) -> None:
        self.steps.found.setdefault(key, step)
        self.steps.links |= {(before, key) for before in self.front}
        if again:
            self.steps.links.add((key, key))
        self.front = {key, *(self.front if again else ())}
        for reached in self._tries:
            reached.add(key)


def _does(owner: object, name: str) -> StepKind | None:
    """What a method of an object does, of what matters."""
    if isinstance(owner, Function) and name in {"run", "invoke"}:
        return "tool"
    return next((kind for kind, classes, names in _DOES if name in names and is_kind(owner, *classes)), None)


def _underlying(target: object, arguments: Arguments) -> tuple[object, Arguments]:
    """The function that is called in the end, and with what."""
    while True:
        match target:
            case Applied(function=inner, arguments=first):
                positional = first.positional + arguments.positional
                arguments = Arguments(positional, {**first.keywords, **arguments.keywords}, arguments.open)
            case functools.partial(func=inner, args=args):
                arguments = Arguments((*map(exactly, args), *arguments.positional), arguments.keywords, arguments.open)
            case MethodType(__func__=inner, __self__=owner):
                arguments = Arguments((exactly(owner), *arguments.positional), arguments.keywords, arguments.open)
            case _:
                return target, arguments
        target = inner
