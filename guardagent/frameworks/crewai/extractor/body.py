"""Control flow in the body of a flow's method: the crews, agents, tools, flows and questions that it runs, in order.

Each of these is a step, with links to its possible successors. Every branch is followed, and loops can repeat.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal

from guardagent.frameworks.crewai.extractor.objects import OPEN, CrewReader, is_kind
from guardagent.workflow.python_source.bodies import NO_FRAMEWORK, ReadableFunction
from guardagent.workflow.python_source.evaluator import underlying
from guardagent.workflow.python_source.paths import PathWalker
from guardagent.workflow.python_source.values import Arguments, Function, exactly

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
    (
        "tool",
        ("BaseTool", "CrewStructuredTool"),
        frozenset({"run", "arun", "_run", "_arun", "invoke", "ainvoke", "func"}),
    ),
    ("model", ("BaseLLM", "LLM"), frozenset({"call", "acall"})),
    ("person", ("Flow",), frozenset({"ask"})),
)
_MODELS = (".completions.create", ".responses.create", ".messages.create", "litellm.completion", "litellm.acompletion")


@dataclass(frozen=True, eq=False)
class BodyStep:
    """A step of a body; `target` is the object that runs, or OPEN."""

    kind: StepKind
    target: Any
    line: int


@dataclass
class BodySteps:
    """The steps of a body.

    Attributes:
        found: the steps by key.
        links: pairs of a step and a direct successor; BEGIN precedes the first steps.
        parallel: the links that are taken together with others.
        ends: the steps after which the body can end; BEGIN if it can do nothing.
        known: the code could be read.
    """

    found: dict[Key, BodyStep] = dataclasses.field(default_factory=dict)
    links: set[tuple[Key, Key]] = dataclasses.field(default_factory=set)
    parallel: set[tuple[Key, Key]] = dataclasses.field(default_factory=set)
    ends: set[Key] = dataclasses.field(default_factory=set)
    known: bool = True

    def without(self, drop: Callable[[BodyStep], bool]) -> BodySteps:
        """The steps without some of them, with their predecessors linked to their successors."""
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
        """The links in code order."""
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
        """Whether every path through the body has a step of a kind."""
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
        """Whether it is exactly one step, always taken once."""
        return len(self.found) == 1 and self.links == {(BEGIN, next(iter(self.found)))} and BEGIN not in self.ends


def steps_of(reader: CrewReader, function: FunctionType | ReadableFunction, owner: object) -> BodySteps:
    """The steps of a method."""
    readable = reader.function(function)
    if readable is None:
        return BodySteps(ends={BEGIN}, known=False)
    walk = _BodyWalk(reader)
    walk.steps.ends = set(walk.into(readable, Arguments((exactly(owner),), open=True), frozenset({BEGIN})) or ())
    return walk.steps


_Front = frozenset[Key]
_Effect = Callable[[_Front], _Front | None]


class _BodyWalk(PathWalker[_Front]):
    """Walks through code; the state is the set of steps that can directly precede."""

    def __init__(self, reader: CrewReader) -> None:
        super().__init__()
        self.reader = reader
        self.steps = BodySteps()
        self._path: tuple[int, ...] = ()
        self._inside: list[ast.AST] = []

    def join(self, before: _Front, ends: list[_Front], *, whole: bool) -> _Front:  # noqa: ARG002 - joins do not depend on it
        return _Front().union(*ends)

    def loop_state(self, begin: _Front, end: _Front, rounds: int) -> _Front | None:  # noqa: ARG002 - until a fixed point
        return None if end <= begin else begin | end

    def into(self, function: Function, arguments: Arguments, front: _Front) -> _Front | None:
        """Walks through a called function."""
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
        """Walks through expressions that run in parallel from the same state."""
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
        """The relevant effects of a call."""
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
        """The effects of a function that is passed as an argument."""
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
        """The effects of calling a function of the program."""
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
    """The kind of step that a method of an object is; None if it is irrelevant."""
    if isinstance(owner, Function) and name in {"run", "invoke"}:
        return "tool"
    return next((kind for kind, classes, names in _EFFECTS if name in names and is_kind(owner, *classes)), None)
