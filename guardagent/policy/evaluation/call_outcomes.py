"""The possible outcomes of the calls in flight that a condition distinguishes, and which recorded calls failed.

A condition holds if it holds for every combination of outcomes. Most conditions are monotone in each count and sum, so
each call has one worst outcome, and one combination decides. Where several outcomes of a call can be the worst, all are
tried; calls with the same effect on the condition are interchangeable. Where these are too many combinations, only the
outcomes on which the value of the condition depends are told apart, one call after another.

A call failed if `failed_output` matches a part of its output: each part is matched separately.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import combinations_with_replacement, product
from math import comb, prod
from typing import Any, NamedTuple

from guardagent.policy.evaluation.history_index import HistoryIndex, union_of
from guardagent.policy.evaluation.history_query import Env, HistoryQuery
from guardagent.policy.evaluation.monitor_interface import CallStatus, RuleContext, SessionCall
from guardagent.policy.language import ast
from guardagent.policy.language.values import Truth, Unknown, bounds_of, conjunction
from guardagent.types import thaw

# --- calls in flight

MAX_OUTCOMES = 1000  # combinations that are tried
MAX_SPLITS = 100  # calls whose outcomes are told apart if there are more combinations
MAX_TRIES = 1000  # the number of times that this is done
_TOO_MANY = Unknown("too many calls are in flight to try all of their outcomes")

_RISING = {"<": (-1, 1), "<=": (-1, 1), ">": (1, -1), ">=": (1, -1)}

Directions = dict[int, int]
"""The number of an index -> 1 if the condition increases with its value, -1 if it decreases, else 0."""


class CallOutcomes:
    """The outcomes that some conditions distinguish.

    Args:
        conditions: the conditions.
        queries: the history queries of the policy.
        own: the numbers of the conditions' own queries, including nested ones.
        index_of: id() of a term -> the number of its index.
        directed: whether only the worst outcomes matter; otherwise every difference counts.
    """

    def __init__(
        self,
        conditions: Sequence[ast.Term],
        queries: Sequence[HistoryQuery],
        own: Sequence[int],
        index_of: Mapping[int, int],
        *,
        directed: bool = True,
    ) -> None:
        self._directions: Directions = {}
        for condition in conditions if own else ():
            _direct(condition, int(directed), index_of, self._directions)
        own = [number for number in own if not queries[number].in_flight]
        intricate = [number for number in own if number not in self._directions]
        self.tools = union_of(queries[number].tools for number in own)
        self._intricate = union_of(queries[number].tools for number in intricate)

    def forall(
        self,
        context: RuleContext,
        env: Env,
        value: Callable[[], Truth],
        limit: int | None = None,
        *,
        is_three_valued: bool = False,
    ) -> Truth:
        """The conjunction of a value over all outcomes.

        Args:
            context: the context of the session.
            env: the environment of the condition.
            value: the condition; called for each combination of outcomes until it is false.
            limit: the maximum number of combinations that are tried; None for `MAX_OUTCOMES`.
            is_three_valued: whether the value is unknown while it depends on a call for which no outcome is assumed.
                Otherwise it is false or unknown where there are too many combinations.
        """
        groups = self._groups(context, env)
        number = prod(comb(len(calls) + len(ends) - 1, len(ends) - 1) for ends, calls in groups)
        if number <= (MAX_OUTCOMES if limit is None else limit):
            return _agreed(value, _assignments(groups))
        truth = _agreed(value, _uniform_assignments(groups))
        if truth is False or not is_three_valued:
            return truth is not False and conjunction([truth, _TOO_MANY])
        calls = [(call, ends) for ends, calls in groups for call in calls]
        calls.sort(key=lambda pair: pair[0].place, reverse=True)
        return _split(value, calls[:MAX_SPLITS], iter(range(MAX_TRIES)))

    def _groups(self, context: RuleContext, env: Env) -> list[tuple[tuple[CallStatus, ...], list[SessionCall]]]:
        """(outcomes to try, calls with the same contributions in each of them)."""
        groups: dict[Any, tuple[tuple[CallStatus, ...], list[SessionCall]]] = {}
        for call in context.in_flight:
            if call.tool in self.tools:
                shares = self._worst(self._contributions(context.indexes, env, call))
                key = call.place if call.tool in self._intricate else tuple(shares.items())
                groups.setdefault(key, (tuple(shares.values()), []))[1].append(call)
        return list(groups.values())

    def _contributions(self, indexes: Mapping[int, HistoryIndex], env: Env, call: SessionCall) -> dict[Any, CallStatus]:
        """The contribution of the call to each index -> an outcome with it."""
        shares: dict[Any, CallStatus] = {}
        for end in call.possible_statuses:
            with _assumed([(call, end)]):
                contribution: list[Any] = [
                    bounds_of(indexes[at].contribution(list(env), call)) for at in self._directions
                ]
            if call.tool in self._intricate:
                contribution.append(end)
            shares.setdefault(tuple(contribution), end)
        return shares

    def _worst(self, shares: dict[Any, CallStatus]) -> dict[Any, CallStatus]:
        """Drops outcomes that another one is as bad as, or worse than."""
        directions = tuple(self._directions.values())
        worst: dict[Any, CallStatus] = {}
        for share, end in shares.items():
            if not any(_is_as_bad(other, share, directions) for other in worst):
                worst = {name: own for name, own in worst.items() if not _is_as_bad(share, name, directions)}
                worst[share] = end
        return worst


def _agreed(value: Callable[[], Truth], outcomes: Iterable[Sequence[tuple[SessionCall, CallStatus]]]) -> Truth:
    """The conjunction of a value over some outcomes."""
    truths: list[Truth] = []
    for outcome in outcomes:
        with _assumed(outcome):
            truths.append(value())
        if truths[-1] is False:
            return False
    return conjunction(truths)


def _split(
    value: Callable[[], Truth], calls: Sequence[tuple[SessionCall, tuple[CallStatus, ...]]], budget: Iterator[int]
) -> Truth:
    """The conjunction of a three-valued value over the outcomes of calls, as far as it depends on them."""
    truth = value()
    if type(truth) is not Unknown or not truth.undetermined or not calls:
        return truth
    truths: list[Truth] = []
    (call, ends), *others = calls
    for end in ends:
        if next(budget, None) is None:
            return _TOO_MANY
        with _assumed([(call, end)]):
            truths.append(_split(value, others, budget))
        if truths[-1] is False:
            return False
    return conjunction(truths)


def _is_as_bad(outcome: Sequence[Any], other: Sequence[Any], directions: Sequence[int]) -> bool:
    """Whether the first outcome is at least as bad for the condition as the second."""
    if outcome[len(directions) :] != other[len(directions) :]:
        return False
    for mine, others, direction in zip(outcome, other, directions, strict=False):
        if mine == others:
            continue
        if mine is None or others is None or not direction:
            return False
        if any((a - b) * direction > 0 for a, b in zip(mine, others, strict=True)):
            return False
    return True


def _assignments(
    groups: Sequence[tuple[tuple[CallStatus, ...], list[SessionCall]]],
) -> Iterator[list[tuple[SessionCall, CallStatus]]]:
    each = [combinations_with_replacement(ends, len(calls)) for ends, calls in groups]
    calls = [call for _, calls in groups for call in calls]
    for outcome in product(*each):
        yield list(zip(calls, (end for ends in outcome for end in ends), strict=True))


def _uniform_assignments(
    groups: Sequence[tuple[tuple[CallStatus, ...], list[SessionCall]]],
) -> Iterator[list[tuple[SessionCall, CallStatus]]]:
    """A few combinations of many: all calls have the same outcome where possible."""
    for wanted in ("ok", "failed", "withdrawn"):
        yield [(call, wanted if wanted in ends else ends[0]) for ends, calls in groups for call in calls]


@contextmanager
def _assumed(outcome: Sequence[tuple[SessionCall, CallStatus]]) -> Iterator[None]:
    for call, end in outcome:
        call.assumed_status = end
    try:
        yield
    finally:
        for call, _ in outcome:
            call.assumed_status = None


def _direct(node: object, direction: int, index_of: Mapping[int, int], directions: Directions) -> None:
    """Adds the direction of a condition in each of its indexes, except nested ones and those inside of items."""
    if not isinstance(node, ast.CountCalls | ast.SumCalls | ast.SomeCall):
        for part, turn in _turned(node):
            _direct(part, direction * turn, index_of, directions)
    elif sum(isinstance(node, ast.OF_HISTORY) for node in ast.walk(node)) == 1:
        index = index_of[id(node)]
        directions[index] = direction if directions.get(index, direction) == direction else 0


def _turned(node: object) -> list[tuple[object, int]]:
    """(part of a term, 1 if the term increases with it, -1 if it decreases, else 0)."""
    match node:
        case ast.Implies(first, second):
            return [(first, -1), (second, 1)]
        case ast.Negation(body) | ast.Negative(body):
            return [(body, -1)]
        case ast.Compare(left, sign, right):
            return list(zip((left, right), _RISING.get(sign, (0, 0)), strict=True))
        case ast.Arithmetic(left, "-", right):
            return [(left, 1), (right, -1)]
        case ast.Arithmetic(ast.Constant(factor), "*", body) | ast.Arithmetic(body, "*", ast.Constant(factor)):
            return [(body, _sign(factor))]
        case ast.Selected() | ast.OverItems():
            return []  # the selected call depends on the order, and a condition on items depends on the item
    turn = int(isinstance(node, ast.And | ast.Or) or (isinstance(node, ast.Arithmetic) and node.operator == "+"))
    return [(part, turn) for part in ast.children(node)]


def _sign(factor: Any) -> int:
    return 0 if isinstance(factor, bool | str) else (factor > 0) - (factor < 0)


# --- failed calls

_PLAIN = re.compile(r"""\^?[A-Za-z0-9_ :,'"!=/@#%&;<>~-]+""")
_GROUPED = re.compile(r"(\^?)\(([^()]*)\)")


def is_failure(pattern: Any, *outputs: Any) -> bool:
    """Whether a compiled pattern matches any string in the output of a tool. None matches nothing."""
    if pattern is None:
        return False
    if len(outputs) == 1 and type(outputs[0]) is str:  # the common case
        return _matches(pattern, outputs[0])
    return any(_matches(pattern, text) for output in outputs if output is not None for text in _strings(output))


def _matches(pattern: Any, text: str) -> bool:
    literals = literals_of(pattern)
    if literals is not None and text.isascii():  # twenty times as fast as the search
        prefixes, parts = literals
        return text.startswith(prefixes) or (bool(parts) and any(part in text for part in parts))
    try:
        return bool(pattern.search(text))
    except UnicodeEncodeError:  # RE2 rejects lone surrogates
        return bool(pattern.search(text.encode("utf-8", "backslashreplace").decode()))


class Literals(NamedTuple):
    """The alternatives of a pattern without operators: with and without `^` before them."""

    prefixes: tuple[str, ...]
    parts: tuple[str, ...]


@lru_cache(64)
def literals_of(pattern: Any) -> Literals | None:
    """The alternatives of a pattern such as `^Error|not found` or `^(Error|Failed)`; None for any other pattern."""
    text = pattern.pattern
    if not isinstance(text, str):
        return None
    grouped = _GROUPED.fullmatch(text)
    start, inner = grouped.groups() if grouped is not None else ("", text)
    literals = [start + part for part in inner.split("|")]
    if not all(map(_PLAIN.fullmatch, literals)):
        return None
    prefixes = tuple(literal.removeprefix("^") for literal in literals if literal.startswith("^"))
    return Literals(prefixes, tuple(literal for literal in literals if not literal.startswith("^")))


def _strings(output: Any) -> Iterator[str]:
    """Yields a string output itself; otherwise the output as JSON and the strings of its blocks."""
    yield from _block_strings(output)
    parts = _fields(output)
    content = output if isinstance(output, list | tuple) else parts.get("content")
    if isinstance(content, list | tuple):
        for block in content:
            yield from _block_strings(block)
    for name in ("structuredContent", "structured_content"):
        if parts.get(name) is not None:
            yield from _block_strings(parts[name])


def _block_strings(block: Any) -> Iterator[str]:
    """Yields a block as JSON, and each string in it."""
    if isinstance(block, str):
        yield block
        return
    yield json.dumps(thaw(block), ensure_ascii=False, default=str)
    fields = _fields(block)
    for value in (*fields.values(), *_fields(fields.get("resource")).values()):
        if isinstance(value, str):
            yield value


def _fields(value: Any) -> Mapping[str, Any]:
    """The fields of a mapping or an object. Runs no code of the object."""
    if isinstance(value, Mapping):
        return value
    held = getattr(value, "__dict__", None)
    return held if isinstance(held, dict) else {}
