"""Probes: what the recorded call alone says about a condition that also depends on the check.

A residual condition of a history term compares values of a past call with values that the check determines. Each such
comparison is a *probe*. The condition is decided for a past call with every probe open (unknown), and then with each
one failing. Kleene's logic is monotone: what is false with open probes is false for every check, and what is false if a
probe fails is false for each check whose value is not among those that the probe compares. So these values are keys of
an index.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from guardagent.policy.functions import function
from guardagent.policy.functions.strings import words_of, words_of_token
from guardagent.policy.language import ast
from guardagent.policy.language.values import Truth, Undetermined, Unknown, hash_key, kind_of

# --- terms over a past call


def may_fail(node: object) -> bool:
    """Whether evaluating a term can raise an error: of a function of the operator, or of a store."""
    return any(
        isinstance(node, ast.StateOf | ast.CounterValue)
        or (isinstance(node, ast.Apply) and function(node.function) is None)
        for node in ast.walk(node)
    )


def own_terms(node: object, local: Collection[str]) -> Iterator[ast.Term]:
    """The largest terms in a condition that depend on the past call alone."""
    is_term = not isinstance(node, ast.Pattern | ast.Argument)
    if is_term and ast.is_own(node, local) and not ast.names_in(node).isdisjoint(local):
        yield node  # type: ignore[misc]  # no other node has names
        return
    for child in ast.children(node):
        yield from own_terms(child, local)


# --- probes

_OPEN = Unknown(Undetermined("it depends on the check"))


@dataclass(frozen=True, eq=False, slots=True)
class KeyProbe:
    """A comparison of a value of the past call with one of the check.

    Attributes:
        own: the side of the past call.
        other: the side of the check.
        operator: the operator from the past call to the check; `contains` or `mentions` if the value of the check is an
            item of a list of the call, or a word in a value of it.
    """

    own: ast.Term
    other: ast.Term
    operator: str

    @property
    def is_order(self) -> bool:
        return self.operator[0] in "<>"

    def keys(self, value: Any) -> list[Any]:
        """The index keys of the values of the past call; with None if one has none."""
        if self.operator == "mentions":
            return words_of(value)
        if self.operator == "contains":
            return _item_keys(value)
        key = hash_key(value)
        return [None if type(key) is tuple and self.is_order else key]  # a truth value has no order

    def wanted_keys(self, value: Any) -> list[Any]:
        """The same for the value of the check."""
        if self.operator == "mentions":
            return words_of_token(value)
        return _item_keys(value) if self.operator == "in" else [hash_key(value)]


def _item_keys(value: Any) -> list[Any]:
    return [hash_key(item) for item in value] if kind_of(value) in ("list", "set") else [None]


@dataclass(slots=True)
class Prober:
    """Decides conditions without the check.

    Attributes:
        failing: the probes that fail, with their keys; the others are open.
        is_open: whether a node was open.
    """

    failing: dict[KeyProbe, set[Any]] = field(default_factory=dict)
    is_open: bool = False

    def compared(self, probe: KeyProbe | None, own: Callable[[list[Any]], Any] | None, env: list[Any]) -> Truth:
        """The result of a node. The keys of a failing probe are kept."""
        keys = [None] if probe is None or own is None or probe not in self.failing else probe.keys(own(env))
        if probe is None or None in keys:
            self.is_open = True
            return _OPEN
        self.failing[probe].update(keys)
        return probe.operator == "!="


class ResidualPlan:
    """The probes of residual conditions, and what else can be said of them before any call is made.

    Args:
        conditions: the conditions.
        local: the names that belong to the past call.

    Attributes:
        probes: the probes, by the id of the comparison.
        open: the ids of the other nodes that depend on the check; they stay open.
        fallible: the terms of the check that can raise an error.
        own: the largest terms of the past call alone. They decide the conditions together with the check.
        is_sound: whether calls can be left out: no term raises an error for some of them only, or reads their sources.
    """

    def __init__(self, conditions: Sequence[ast.Term], local: Collection[str]) -> None:
        self.probes: dict[int, KeyProbe] = {}
        self.open: set[int] = set()
        self.fallible: list[ast.Term] = []
        self.own = [term for condition in conditions for term in own_terms(condition, local)]
        self.is_sound = True
        for condition in conditions:
            self._visit(condition, frozenset(local))

    def _visit(self, node: Any, local: frozenset[str]) -> None:
        match node:
            case _ if ast.is_own(node, local):
                self.is_sound = self.is_sound and not may_fail(node)
            case ast.And() | ast.Or() | ast.Implies() | ast.Negation():
                for part in ast.children(node):
                    self._visit(part, local)
            case ast.OverItems("any" | "all", variable, items, condition) if ast.is_own(items, local):
                self.is_sound = self.is_sound and not may_fail(items)
                self._visit(condition, local | {variable})
            case _:
                self._leaf(node, local)

    def _leaf(self, node: ast.Term, local: frozenset[str]) -> None:
        probe = _probe(node, local)
        if probe is not None:
            self.probes[id(node)] = probe
            self.is_sound = self.is_sound and not may_fail(probe.own)
            self.fallible += [probe.other] if may_fail(probe.other) else []
            return
        self.open.add(id(node))
        if ast.names_in(node).isdisjoint(local):
            self.fallible += [node] if may_fail(node) else []
        elif may_fail(node) or any(isinstance(part, ast.Sources) for part in ast.walk(node)):
            self.is_sound = False


def _probe(node: ast.Term, local: frozenset[str]) -> KeyProbe | None:
    """The probe of a node that compares a value of the past call alone with one of the check alone; else None."""
    sides: list[tuple[Any, Any, str]]
    match node:
        case ast.Apply("mentions", (whole, token)):
            sides = [(whole, token, "mentions")]
        case ast.Compare(left, "in", right):
            sides = [(left, right, "in"), (right, left, "contains")]
        case ast.Compare(left, operator, right):
            sides = [(left, right, operator), (right, left, ast.MIRRORED[operator])]
            if isinstance(left, ast.Arithmetic) and left.operator == "-":  # now - time(f) <= 24h
                sides.append((left.right, ast.Arithmetic(left.left, "-", right), ast.MIRRORED[operator]))
        case _:
            return None
    for own, other, sign in sides:
        if ast.is_own(own, local) and ast.names_in(other).isdisjoint(local) and not ast.names_in(own).isdisjoint(local):
            return KeyProbe(own, other, sign)
    return None
