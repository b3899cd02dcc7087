"""The typed syntax of temporal rules: what a rule's text says, before anything is compiled.

    Rule       Temporal(formula) | Forall | Exists | Before | After | AllOf | AnyOf | Not
    Pattern    the calls that a rule speaks of: tools, and what their arguments must be
    Term       a value, and so also a condition: a term whose value is true, false or unknown

Every pattern, and every term that can be wrong in itself, knows its place in the rule's text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from guardagent.policy.language.formula import Formula

if TYPE_CHECKING:
    from guardagent.policy.evaluation.monitor_interface import Monitor


@dataclass(frozen=True, slots=True)
class Place:
    """Where something begins in a rule's text, from 1."""

    line: int = 1
    column: int = 1


_NOWHERE = Place()

# --- patterns ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExactValue:
    """An argument that equals a literal."""

    value: str | int | Fraction | bool


@dataclass(frozen=True, slots=True)
class RegexValue:
    """An argument that is a text, the whole of which matches a regular expression."""

    regex: str


@dataclass(frozen=True, slots=True)
class AnyValue:
    """An argument that is given, whatever it is."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A name for a value: bound where it is first used, and equal to that afterwards."""

    name: str
    place: Place = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    value: ExactValue | RegexValue | AnyValue | Variable


@dataclass(frozen=True, slots=True)
class Pattern:
    """Calls of some tools. `@name` among the tools stands for the set of that name."""

    tools: tuple[str, ...]
    arguments: tuple[Argument, ...] = ()
    label: str | None = None
    place: Place = field(default=_NOWHERE, compare=False)


# --- terms ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant:
    value: str | int | Fraction | bool


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    body: Term


@dataclass(frozen=True, slots=True)
class Implies:
    first: Term
    second: Term


@dataclass(frozen=True, slots=True)
class Compare:
    left: Term
    operator: Literal["==", "!=", "<", "<=", ">", ">=", "in"]
    right: Term


@dataclass(frozen=True, slots=True)
class Matches:
    """Whether the whole of a text matches a regular expression."""

    body: Term
    regex: str


@dataclass(frozen=True, slots=True)
class Arithmetic:
    left: Term
    operator: Literal["+", "-", "*", "/", "%"]
    right: Term


@dataclass(frozen=True, slots=True)
class Negative:
    body: Term


@dataclass(frozen=True, slots=True)
class Length:
    body: Term


@dataclass(frozen=True, slots=True)
class Known:
    body: Term


@dataclass(frozen=True, slots=True)
class Field:
    body: Term
    name: str


@dataclass(frozen=True, slots=True)
class Item:
    body: Term
    index: Term


@dataclass(frozen=True, slots=True)
class Label:
    """A call, by its label."""

    name: str
    place: Place = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Selected:
    """The first or last call of the history that matches."""

    which: Literal["first", "last"]
    pattern: Pattern
    condition: Term


@dataclass(frozen=True, slots=True)
class OfCall:
    """What is known of a call."""

    what: Literal["output", "args", "failed"]
    call: Label | Selected


@dataclass(frozen=True, slots=True)
class State:
    """The state as it is now."""


@dataclass(frozen=True, slots=True)
class StateOf:
    """What a toolbox function says of the state as it is now."""

    function: str
    arguments: tuple[Term, ...]
    place: Place = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something the host knows."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CountCalls:
    pattern: Pattern
    condition: Term


@dataclass(frozen=True, slots=True)
class SumCalls:
    pattern: Pattern
    condition: Term
    term: Term


@dataclass(frozen=True, slots=True)
class SomeCall:
    """Whether an earlier call matches: what `before` asks for. `ok`: it has to have gone well."""

    pattern: Pattern
    condition: Term
    ok: bool


@dataclass(frozen=True, slots=True)
class OverItems:
    """A condition over the items of a list: of all, of any, or in how many it holds."""

    which: Literal["all", "any", "count"]
    variable: str
    items: Term
    condition: Term


Term = (
    Constant
    | Variable
    | ListOf
    | And
    | Or
    | Negation
    | Implies
    | Compare
    | Matches
    | Arithmetic
    | Negative
    | Length
    | Known
    | Field
    | Item
    | OfCall
    | State
    | StateOf
    | Fact
    | CountCalls
    | SumCalls
    | SomeCall
    | OverItems
)

TRUE = Constant(value=True)

# --- rules ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Temporal:
    """A propositional rule."""

    formula: Formula


@dataclass(frozen=True, slots=True)
class Forall:
    """Every matching call satisfies the condition."""

    pattern: Pattern
    condition: Term


@dataclass(frozen=True, slots=True)
class Exists:
    """Some matching call that went well satisfies the condition, by the end."""

    pattern: Pattern
    condition: Term


@dataclass(frozen=True, slots=True)
class Before:
    """A matching call with the condition needs an earlier partner with its own."""

    pattern: Pattern
    condition: Term
    partner: Pattern
    partner_condition: Term


@dataclass(frozen=True, slots=True)
class After:
    """A matching call with the condition obliges a later partner with its own."""

    pattern: Pattern
    condition: Term
    partner: Pattern
    partner_condition: Term


@dataclass(frozen=True, slots=True)
class AllOf:
    parts: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Not:
    body: Rule


@dataclass(frozen=True, slots=True)
class SolverRule:
    """Every call of some tools is judged by a part of its own: that of a solver rule."""

    tools: frozenset[str]
    monitor: Monitor


Rule = Temporal | Forall | Exists | Before | After | AllOf | AnyOf | Not | SolverRule


def children(node: object) -> Iterator[object]:
    """The patterns, arguments and terms directly inside of one."""
    for one in fields(node):  # type: ignore[arg-type]  # every node is a dataclass
        value = getattr(node, one.name)
        for child in value if isinstance(value, tuple) else (value,):
            if hasattr(child, "__dataclass_fields__") and not isinstance(child, Place):
                yield child


OF_HISTORY = (SomeCall, CountCalls, SumCalls, Selected)
"""The terms that look at calls of the history."""


def walk(node: object) -> Iterator[object]:
    """A node and everything inside of it."""
    yield node
    for child in children(node):
        yield from walk(child)
