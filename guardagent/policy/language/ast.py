"""The syntax tree of temporal rules.

    Rule       Temporal(formula) | Forall | Exists | Before | After | AllOf | AnyOf | Not
    Pattern    matches calls by their tools and arguments
    Term       a value; a condition is a term whose value is true, false or unknown

Patterns, and terms that can be invalid by themselves, keep their place in the rule.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cache
from typing import Any, Literal

from guardagent.policy.language.formula import Formula


@dataclass(frozen=True, slots=True)
class Place:
    """A line and column in a rule, from 1."""

    line: int = 1
    column: int = 1


_NOWHERE = Place()


class Term:
    """A value; a condition is a term whose value is true, false or unknown."""

    __slots__ = ()


# --- patterns ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExactValue:
    """An argument that equals a literal."""

    value: str | int | Fraction | bool


@dataclass(frozen=True, slots=True)
class RegexValue:
    """An argument that is a string and fully matches a regular expression."""

    regex: str


@dataclass(frozen=True, slots=True)
class AnyValue:
    """An argument that is present, with any value."""


@dataclass(frozen=True, slots=True)
class Variable(Term):
    """A named value: its first use binds it, later uses must be equal."""

    name: str
    place: Place = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    value: ExactValue | RegexValue | AnyValue | Variable


@dataclass(frozen=True, slots=True)
class Pattern:
    """Calls of some tools. `@name` stands for the tools with that tag."""

    tools: tuple[str, ...]
    arguments: tuple[Argument, ...] = ()
    label: str | None = None
    place: Place = field(default=_NOWHERE, compare=False)


# --- terms ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Constant(Term):
    """A literal, or a table of the policy file: a frozen mapping or list, and its name there."""

    value: Any
    name: str = field(default="", compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(str(self.value)) if isinstance(self.value, Mapping | tuple) else hash(self.value)


@dataclass(frozen=True, slots=True)
class ListOf(Term):
    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class SetOf(Term):
    """A set of strings."""

    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class SetOperation(Term):
    """The union or intersection of two sets."""

    left: Term
    operator: Literal["|", "&"]
    right: Term


@dataclass(frozen=True, slots=True)
class Apply(Term):
    """The result of a function on values. It depends on nothing else."""

    function: str
    arguments: tuple[Term | RegexValue, ...]
    place: Place = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class And(Term):
    parts: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Or(Term):
    parts: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Negation(Term):
    body: Term


@dataclass(frozen=True, slots=True)
class Implies(Term):
    first: Term
    second: Term


Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in"]
OPPOSITE: Mapping[str, Operator] = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The operators of the negations of comparisons."""
MIRRORED: Mapping[str, Operator] = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""The operators of comparisons whose sides change places."""


@dataclass(frozen=True, slots=True)
class Compare(Term):
    left: Term
    operator: Operator
    right: Term


@dataclass(frozen=True, slots=True)
class Matches(Term):
    """Whether a string fully matches a regular expression."""

    body: Term
    regex: str


@dataclass(frozen=True, slots=True)
class Arithmetic(Term):
    left: Term
    operator: Literal["+", "-", "*", "/", "%"]
    right: Term


@dataclass(frozen=True, slots=True)
class Negative(Term):
    body: Term


@dataclass(frozen=True, slots=True)
class Length(Term):
    body: Term


@dataclass(frozen=True, slots=True)
class Known(Term):
    body: Term


@dataclass(frozen=True, slots=True)
class Field(Term):
    body: Term
    name: str


@dataclass(frozen=True, slots=True)
class Item(Term):
    body: Term
    index: Term


@dataclass(frozen=True, slots=True)
class Label:
    """A reference to a call by its label."""

    name: str
    place: Place = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Selected:
    """The first or last matching call of the history."""

    which: Literal["first", "last"]
    pattern: Pattern
    condition: Term


@dataclass(frozen=True, slots=True)
class OfCall(Term):
    """The output, the arguments, the tool or the failure of a call."""

    what: Literal["output", "args", "tool", "failed"]
    call: Label | Selected


@dataclass(frozen=True, slots=True)
class TimeOf(Term):
    """The time of a call, in seconds since the epoch."""

    call: Label | Selected


@dataclass(frozen=True, slots=True)
class Now(Term):
    """The time of the check, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Elapsed(Term):
    """The seconds from the first call of the session to the check; 0 without one."""


@dataclass(frozen=True, slots=True)
class Zone(Term):
    """The name of the time zone of the session's clock."""


@dataclass(frozen=True, slots=True)
class Principal(Term):
    """The principal of the session: on whose behalf the agent acts."""


@dataclass(frozen=True, slots=True)
class Sources(Term):
    """The labels of the places that a value came from."""

    body: Term


@dataclass(frozen=True, slots=True)
class Seen(Term):
    """Whether an output with one of these labels is in the conversation."""

    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessagesText(Term):
    """The text of the messages of a role, the newest last."""

    role: str


@dataclass(frozen=True, slots=True)
class CounterValue(Term):
    """The value of a counter across conversations for a key."""

    name: str
    keys: tuple[Term, ...]
    place: Place = field(default=_NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class State(Term):
    """The current state."""


@dataclass(frozen=True, slots=True)
class StateOf(Term):
    """The result of a toolbox function on the current state."""

    function: str
    arguments: tuple[Term, ...]
    place: Place = field(default=_NOWHERE, compare=False)


USAGE, USED = "usage", ("tokens", "cost")
"""The fact with what models have used in the conversation, and its fields."""


@dataclass(frozen=True, slots=True)
class Fact(Term):
    """A fact of the host."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CountCalls(Term):
    """The number of matching calls; `within`: counts only the calls of that many last seconds."""

    pattern: Pattern
    condition: Term
    within: Term | None = None


@dataclass(frozen=True, slots=True)
class SumCalls(Term):
    pattern: Pattern
    condition: Term
    term: Term
    within: Term | None = None


@dataclass(frozen=True, slots=True)
class SomeCall(Term):
    """Whether an earlier call matches, as `before` requires. `ok`: the call must have succeeded."""

    pattern: Pattern
    condition: Term
    ok: bool
    within: Term | None = None


@dataclass(frozen=True, slots=True)
class CallInFlight(Term):
    """Whether a matching call is in flight."""

    pattern: Pattern
    condition: Term


@dataclass(frozen=True, slots=True)
class CallFold(Term):
    """A number over the matching calls: of the different values of a term, or the place of the last one.

    `last` is 0 without a call. `last ok` sees successful calls only, and is -1 without one.
    """

    which: Literal["distinct", "last", "last ok"]
    pattern: Pattern
    condition: Term
    term: Term | None = None
    within: Term | None = None


@dataclass(frozen=True, slots=True)
class OverItems(Term):
    """A condition on the items of a list: all, any, or the number that satisfy it."""

    which: Literal["all", "any", "count"]
    variable: str
    items: Term
    condition: Term


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
    """Some successful matching call satisfies the condition by the end."""

    pattern: Pattern
    condition: Term


@dataclass(frozen=True, slots=True)
class Before:
    """A matching call that satisfies the condition needs an earlier partner call."""

    pattern: Pattern
    condition: Term
    partner: Pattern
    partner_condition: Term


@dataclass(frozen=True, slots=True)
class After:
    """A matching call that satisfies the condition requires a later partner call."""

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
    """A solver rule: its own monitor judges every call of some tools.

    `arguments` are the pairs of a tool and an argument that it reads. `reads_zone`: whether a value depends on the zone
    of the session's clock.
    """

    tools: frozenset[str]
    monitor: Any  # a `Monitor` of the evaluation, which reads these trees
    arguments: frozenset[tuple[str, str]] = frozenset()
    reads_zone: bool = False


Rule = Temporal | Forall | Exists | Before | After | AllOf | AnyOf | Not | SolverRule


_NODES = re.compile("Rule|Pattern|Argument|Term|Value|Variable|Label|Selected")  # in the annotation of a field


@cache
def _members(kind: type) -> tuple[str, ...]:
    """The fields of a node that can hold patterns, arguments or terms."""
    return tuple(member.name for member in fields(kind) if _NODES.search(str(member.type)))


def children(node: object) -> list[object]:
    """The direct child patterns, arguments and terms of a node."""
    inner: list[object] = []
    for name in _members(type(node)):  # type: ignore[arg-type]  # mypy takes a type for unhashable
        value = getattr(node, name)
        if type(value) is tuple:
            inner += [part for part in value if hasattr(part, "__dataclass_fields__")]
        elif hasattr(value, "__dataclass_fields__"):
            inner.append(value)
    return inner


LAST_CALL = CallFold("last", Pattern(("*",)), TRUE)
"""The place of the call before the one at hand."""


def folds_of(node: Compare) -> tuple[CallFold, CallFold] | None:
    """The two terms of `since(p, !q)`, for `>`, or of `previous(p)`, for `==`; None for another comparison."""
    left, right = node.left, node.right
    if not (isinstance(left, CallFold) and isinstance(right, CallFold) and left.which == "last ok"):
        return None
    is_since = node.operator == ">" and right.which == "last" and right.within is None
    return (left, right) if is_since or (node.operator == "==" and right == LAST_CALL) else None


OF_HISTORY = (SomeCall, CountCalls, SumCalls, CallFold, CallInFlight, Selected)
"""The terms over calls of the history."""
OF_EARLIER = (*OF_HISTORY, Sources, Seen, Elapsed)
"""The terms that earlier calls can change."""


def names_in(node: object) -> set[str]:
    """The variables and labels in a term, including those that it binds."""
    return {part.name for part in walk(node) if isinstance(part, Variable | Label)}


_OUTSIDE = (*OF_EARLIER, MessagesText, State, StateOf, Fact, Now, Zone, Principal, CounterValue)


def is_own(node: object, local: Collection[str]) -> bool:
    """Whether a term depends only on a past call with these names."""
    if any(isinstance(part, _OUTSIDE) for part in walk(node)):
        return False
    bound = {part.variable for part in walk(node) if isinstance(part, OverItems)}
    return names_in(node) <= bound.union(local)


def reads_zone(node: object) -> bool:
    """Whether a node depends on the zone of the session's clock."""
    return any(isinstance(part, Zone) or getattr(part, "reads_zone", False) for part in walk(node))


def reads_time(nodes: Iterable[object]) -> bool:
    """Whether some nodes read the time of the check or of a call."""
    return any(isinstance(node, Now | Elapsed | TimeOf) or getattr(node, "within", None) is not None for node in nodes)


def walk(node: object) -> Iterator[object]:
    """A node and all of its descendants."""
    waiting = [node]
    while waiting:
        yield (node := waiting.pop())
        waiting += children(node)[::-1]


def is_usage(node: object) -> bool:
    """Whether a term is what models have used in the conversation."""
    return isinstance(node, Fact) and node.path[0] == USAGE


def labels_in(node: object) -> set[str]:
    """The labels that a node reads; with `sources(x)`, all strings that may be labels."""
    nodes = list(walk(node))
    labels = {label for seen in nodes if isinstance(seen, Seen) for label in seen.labels}
    if any(isinstance(part, Sources) for part in nodes):
        labels |= {part.value for part in nodes if isinstance(part, Constant) and isinstance(part.value, str)}
    return labels
