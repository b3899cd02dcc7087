"""The speakers that the functions of a selector group chat can choose, given the last speaker.

The functions take the messages so far. Most read `messages[-1].source`, which is known here, so that their branches can
be followed; anything else that they read is unknown.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType

from guardagent.workflow.extraction.objects import is_a
from guardagent.workflow.python_source.bodies import ReadableFunction
from guardagent.workflow.python_source.builtins import call_method
from guardagent.workflow.python_source.outcomes import Outcomes
from guardagent.workflow.python_source.values import (
    UNKNOWN,
    Arguments,
    NameScope,
    Sequence,
    Values,
    exactly,
    plain_string,
)

AUTOGEN = "autogen_agentchat"


@dataclass(frozen=True)
class SpeakerChoice:
    """The speakers that a function can choose.

    Attributes:
        names: the names that it returns.
        may_be_none: it can choose nobody.
        unknown: it can choose others, or its code is missing.
    """

    names: frozenset[str] = frozenset()
    may_be_none: bool = False
    unknown: bool = False


@dataclass(frozen=True, eq=False)
class _Message:
    """The last message; its source is unknown if there are no names."""

    sources: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Thread:
    """The messages so far; not empty once someone has spoken."""

    last: _Message
    has_spoken: bool


class _SpeakerEvaluator(Outcomes):
    """Evaluates such a function with a known source of the last message."""

    def attribute(self, owner: object, name: str) -> Values:
        if isinstance(owner, _Message):
            return self._source(owner) if name == "source" else UNKNOWN
        known = super().attribute(owner, name)
        return known if not _can_change(owner, name) else Values(known.known, complete=False)

    def _source(self, message: _Message) -> Values:
        self.known_reads += 1
        return Values(message.sources) if message.sources else UNKNOWN

    def item(self, owner: object, key: Values) -> Values:
        if isinstance(owner, _Thread):
            return exactly(owner.last) if key.known == (-1,) and key.complete else UNKNOWN
        return super().item(owner, key)

    def _subscript(self, node: ast.Subscript, scope: NameScope) -> Values:
        if isinstance(node.slice, ast.Slice) and self._is_thread(node.value, scope):
            return self.value(node.value, scope) if node.slice.upper is None else UNKNOWN
        return super()._subscript(node, scope)

    def _is_thread(self, node: ast.AST, scope: NameScope) -> bool:
        return any(isinstance(one, _Thread) for one in self.value(node, scope).known)

    def is_true(self, one: object) -> bool | None:
        if isinstance(one, _Thread):
            self.known_reads += 1
            return True if one.has_spoken else None
        return super().is_true(one)


def _can_change(owner: object, name: str) -> bool:
    """Whether the program may change an attribute at run time; attributes of agents are constant."""
    if isinstance(owner, type | ModuleType) or is_a(owner, AUTOGEN, "ChatAgent", "Team"):
        return False
    return name in getattr(owner, "__dict__", ())


def speaker_choice(function: object, last_speakers: Iterable[str], *, has_spoken: bool) -> SpeakerChoice:
    """The speakers that a function can choose.

    Args:
        function: a `selector_func`, which returns a name or None, or a `candidate_func`, which returns a list of names.
        last_speakers: the possible sources of the last message; empty if unknown.
        has_spoken: whether someone in the team has spoken.
    """
    evaluator = _SpeakerEvaluator()
    thread = _Thread(_Message(tuple(last_speakers)), has_spoken)
    found = _result(evaluator, function, Arguments((exactly(thread),)))
    return _choice(evaluator, found)


def _result(evaluator: _SpeakerEvaluator, function: object, arguments: Arguments) -> Values:
    if isinstance(function, ReadableFunction):
        readable, bound = function.source()[1], function.bound_arguments
        joined = Arguments((*bound.positional, *arguments.positional), bound.keywords, bound.open)
        return evaluator.call(readable, joined) if readable is not None else UNKNOWN
    if isinstance(function, FunctionType | MethodType | functools.partial):
        return evaluator.call(function, arguments)
    method = call_method(function)
    return evaluator.call(method, arguments) if method is not None else UNKNOWN


def _choice(evaluator: _SpeakerEvaluator, found: Values) -> SpeakerChoice:
    lists = [one for one in found.known if isinstance(one, Sequence | list | tuple | set)]
    elements = found
    for one in lists:
        elements |= evaluator.elements(exactly(one))
    names = frozenset(plain_string(one) for one in elements.known if isinstance(one, str))
    others = [one for one in elements.known if not isinstance(one, str | None) and one not in lists]
    return SpeakerChoice(names, None in elements.known, not elements.complete or bool(others))
