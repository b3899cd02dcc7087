"""What the body of a flow's method does, in which order: it runs crews, agents, tools and flows, and asks people.

The code is gone through as it would run, and every branch is taken; what a loop holds can come again. What matters on
the way is a step; from each step it is known which can come next.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Literal

from guardagent.frameworks.crewai.extractor.objects import OPEN, CrewReader, is_kind
from guardagent.workflow.python_source.evaluation.callables import underlying
from guardagent.workflow.python_source.evaluation.values import Arguments, Function, exactly
from guardagent.workflow.python_source.functions.bodies import NO_FRAMEWORK, ReadableFunction
from guardagent.workflow.python_source.functions.paths import PathWalker

StepKind = Literal["person", "model", "tool", "agent", "task", "crew", "flow"]
Key = tuple[object, ...]

BEGIN: Key = ("begin",)
MOST_CALLS = 8
MOST_STEPS = 400

_STARTS = frozenset(
    f"{prefix}kickoff{suffix}" for prefix in ("", "a") for suffix in ("", "_async", "_for_each", "_for_each_async")
)
_EACH = "for_each"
_EFFECTS: tuple[tuple[StepKind, tuple[str, ...], frozenset[str]], ...] = (
    ("crew", ("Crew",), _STARTS),
    ("flow", ("Flow",), _STARTS),
    ("agent", ("BaseAgent", "Agent", "LiteAgent"), _STARTS | {"execute_task", "aexecute_task"}),
    ("task", ("Task",), frozenset({"execute_sync", "execute_async", "aexecute_sync"})),
    ("tool", ("BaseTool", "CrewStructuredTool"), frozenset({"run", "arun", "_run", "_arun", "invoke", "ainvoke"})),
    ("model", ("BaseLLM", "LLM"), frozenset({"call", "acall"})),
    ("person", ("Flow",), frozenset({"ask"})),
)
_MODELS = (".completions.create", ".responses.create", ".messages.create", "litellm.completion", "litellm.acompletion")


@dataclass(frozen=True, eq=False)
class BodyStep:
    """Something that a body does; `target` is what is run, or OPEN."""

    kind: StepKind
    target: Any
    line: int


@dataclass
class BodySteps:
    """The steps of a body.

    Attributes:
        found: each step by its key.
        links: which step can come right after which; after BEGIN, which first.
        parallel: those of the links that are taken together with others.
        ends: after which the body can end; BEGIN, where it can do nothing.
        known: the code could be read.
    """

    found: dict[Key, BodyStep] = field(default_factory=dict)
    links: set[tuple[Key, Key]] = field(default_factory=set)
    parallel: set[tuple[Key, Key]] = field(default_factory=set)
    ends: set[Key] = field(default_factory=set)
    known: bool = True

    def without(self, drop: Callable[[BodyStep], bool]) -> BodySteps:
        """The same without some steps: what came before them leads to what came after."""
        remaining = BodySteps(dict(self.found), set(self.links), set(self.parallel), set(self.ends), self.known)
        for key in [key for key, step in self.found.items() if drop(step)]:
            before = {one for one, other in remaining.links if other == key} - {key}
            after = {other for one, other in remaining.links if one == key} - {key}
            remaining.links = {link for link in remaining.links if key not in link}
            through = {(one, other) for one in before for other in after}
            remaining.links |= through
            remaining.parallel |= {link for link in through if {(link[0], key), (key, link[1])} & remaining.parallel}
            remaining.ends |= before if key in remaining.ends else set()
            remaining.ends.discard(key)
            del remaining.found[key]
        return remaining

    @property
    def ordered_links(self) -> list[tuple[Key, Key]]:
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


def steps_of(reader: CrewReader, function: FunctionType | ReadableFunction, owner: object) -> BodySteps:
    """The steps of a method of some owner."""
    readable = reader.function(function)
    if readable is None:
        return BodySteps(ends={BEGIN}, known=False)
    walk = _BodyWalk(reader)
    walk.steps.ends = set(walk.into(readable, Arguments((exactly(owner),), open=True), frozenset({BEGIN})) or ())
    return walk.steps


_Front = frozenset[Key]
_Effect = Callable[[_Front], _Front | None]


class _BodyWalk(PathWalker[_Front]):
    """Goes through code; the state are the steps after which it can stand where it is."""

    def __init__(self, reader: CrewReader) -> None:
        super().__init__()
        self.reader = reader
        self.steps = BodySteps()
        self._path: tuple[int, ...] = ()
        self._inside: list[ast.AST] = []

    def join(self, before: _Front, ends: list[_Front], *, whole: bool) -> _Front:  # noqa: ARG002 - wherever they part
        return _Front().union(*ends)

    def loop_state(self, begin: _Front, end: _Front, rounds: int) -> _Front | None:  # noqa: ARG002 - as often as brings anything
        return None if end <= begin else begin | end

    def into(self, function: Function, arguments: Arguments, front: _Front) -> _Front | None:
        """Goes through a function that is called here."""
        if function.tree in self._inside or len(self._inside) >= MOST_CALLS or len(self.steps.found) > MOST_STEPS:
            return front
        self._inside.append(function.tree)
        ends = self.function(function.tree, self.reader.body_scope(function, arguments), front)
        self._inside.pop()
        return self._union(ends)

    def _union(self, ends: Iterable[_Front | None]) -> _Front | None:
        return _Front().union(*(one for one in ends if one)) or None

    def _value(self, node: ast.expr) -> tuple[Any, ...]:
        return self.reader.value(node, self.here).known

    def expression(self, node: ast.expr | None, state: _Front) -> _Front | None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "gather":
            return self._parallel(node.args, state)
        return super().expression(node, state)

    def _parallel(self, expressions: list[ast.expr], front: _Front) -> _Front | None:
        """What runs together: each begins where this one stands."""
        links = set(self.steps.links)
        after = [self.expression(one, front) for one in expressions]
        begun = {(one, other) for one, other in self.steps.links - links if one in front}
        self.steps.parallel |= begun if len(begun) > 1 else set()
        return self._union(after) if expressions else front

    # Calls.

    def after_call(self, call: ast.Call, state: _Front) -> _Front | None:
        ways = list(self._effects(call))
        if ways:
            return self._one_of(ways, state)
        front: _Front | None = state
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            front = self._one_of(
                [*self._callback_effects(argument), _unchanged], front
            )  # whom it is given to may call it
        return front

    def _one_of(self, effects: Iterable[_Effect], front: _Front | None) -> _Front | None:
        return self._union(way(front) for way in list(effects)) if front else None

    def _effects(self, node: ast.Call) -> Iterator[_Effect]:
        """What a call can do, of what matters."""
        callee = ast.unparse(node.func)
        owners = self._owners(node.func)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        steps = [(kind, owner) for owner in owners for kind in [_effect_of(owner, name)] if kind]
        if steps or name in _STARTS or callee.endswith(_MODELS):
            unknown: StepKind = "crew" if name in _STARTS else "model"
            for number, (kind, owner) in enumerate(steps or [(unknown, OPEN)]):
                key = (*self._path, id(node), number)
                yield functools.partial(self._step, key, BodyStep(kind, owner, node.lineno), again=_EACH in name)
            return
        arguments = self.reader.arguments(node, self.here)
        for target in self._value(node.func):
            yield from self._call_effects(target, arguments, node)

    def _owners(self, function: ast.expr) -> tuple[Any, ...]:
        return self._value(function.value) if isinstance(function, ast.Attribute) else ()

    def _callback_effects(self, node: ast.expr) -> Iterator[_Effect]:
        """What a function does that is passed to another one."""
        if isinstance(node, ast.Attribute):
            for number, owner in enumerate(self._owners(node)):
                if kind := _effect_of(owner, node.attr):
                    yield functools.partial(
                        self._step, (*self._path, id(node), number), BodyStep(kind, owner, node.lineno)
                    )
        if isinstance(node, ast.Attribute | ast.Name | ast.Lambda):
            for target in self._value(node):
                yield from self._call_effects(target, Arguments(open=True), node)

    def _call_effects(self, target: object, arguments: Arguments, node: ast.expr) -> Iterator[_Effect]:
        """What a function of the program does that is called."""
        if NO_FRAMEWORK.asks_human(target):
            yield functools.partial(self._step, (*self._path, id(node)), BodyStep("person", None, node.lineno))
            return
        function, bound_arguments = underlying(target, arguments)
        if isinstance(function, ReadableFunction) or (
            isinstance(function, FunctionType) and self.reader.follow(function)
        ):
            function = self.reader.function(function)
        if isinstance(function, Function):
            yield functools.partial(self._enter, function, bound_arguments, node)

    def _enter(self, function: Function, arguments: Arguments, node: ast.expr, front: _Front) -> _Front | None:
        path, self._path = self._path, (*self._path, id(node))
        after = self.into(function, arguments, front)
        self._path = path
        return after

    def _step(self, key: Key, step: BodyStep, front: _Front, *, again: bool = False) -> _Front:
        self.steps.found.setdefault(key, step)
        self.steps.links |= {(before, key) for before in front}
        if again:
            self.steps.links.add((key, key))
        self.on_raise_point(_Front({key}))
        return _Front({key, *(front if again else ())})


def _unchanged(front: _Front) -> _Front:
    return front


def _effect_of(owner: object, name: str) -> StepKind | None:
    """What a method of an object does, of what matters."""
    if isinstance(owner, Function) and name in {"run", "invoke"}:
        return "tool"
    return next((kind for kind, classes, names in _EFFECTS if name in names and is_kind(owner, *classes)), None)
