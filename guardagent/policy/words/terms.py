"""Puts conditions and values into words.

Each text has one reading: a condition inside of another stands in parentheses, and a condition that is used as a value
is `whether (...)`. So different conditions have different texts.

The phrases are chosen by the kind of a term. A function of the language has its own phrase; another one is `the result
of NAME for (...)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.language.parser import number_text
from guardagent.policy.language.printer import text_of
from guardagent.policy.language.values import shown

# --- pieces of sentences

_UNITS = ((604800, 2, "week"), (86400, 2, "day"), (3600, 1, "hour"), (60, 1, "minute"), (1, 1, "second"))
_ORDINALS = ("", "", "second ", "third ", "fourth ", "fifth ")


def code(text: str) -> str:
    """A name or a formula in code marks. Different texts have different marks."""
    plain = text.isprintable() and not text.startswith('"')
    shown = text if plain else json.dumps(text, ensure_ascii=False)
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}" if longest else f"{fence}{shown}{fence}"


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def duration(seconds: int | Fraction) -> str:
    """A number of seconds in the largest unit that fits: `24 hours`, `2 days`, `24 hours 1 second`."""
    for length, least, unit in _UNITS:
        count = Fraction(seconds) / length
        if count.denominator == 1 and abs(count) >= least:
            return _counted(str(count), unit)
    if not isinstance(seconds, int) or seconds < 60:
        return _counted(number_text(seconds), "second")
    minutes, rest = divmod(seconds, 60)
    parts = zip((minutes // 60, minutes % 60, rest), ("hour", "minute", "second"), strict=True)
    return " ".join(_counted(str(amount), unit) for amount, unit in parts if amount)


def _counted(amount: str, unit: str) -> str:
    return f"{amount} {unit}" if amount == "1" else f"{amount} {unit}s"


def last(length: str) -> str:
    """A time window: `the last hour`, `the last 24 hours`."""
    return f"in the last {length.removeprefix('1 ')}"


def ordinal(at: int) -> str:
    """The word for the n-th thing of a kind in the same place; nothing for the first."""
    return _ORDINALS[at] if at < len(_ORDINALS) else f"{at}th "


def either(parts: Sequence[str]) -> str:
    return " or ".join(parts)


def numbered(head: str, parts: Iterable[str]) -> str:
    """A list whose items are numbered: `all of these hold: (1) ...; (2) ...`."""
    return f"{head}: {'; '.join(f'({at}) {part}' for at, part in enumerate(parts, 1))}"


def sentence(text: str) -> str:
    """A text as a sentence: with a capital, unless it begins with a name, and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."


# --- names in a sentence


@dataclass(frozen=True, slots=True)
class SentenceScope:
    """The names in scope.

    Attributes:
        calls: the names of the calls, the proposed one first.
        labels: the call of a label, by its place in `calls`.
        variables: the call of a variable, and the argument that binds it.
        items: the names of the items of lists.
        others: the text of any other name.
        named: whether the innermost call has its name too, instead of "it".
    """

    calls: tuple[str, ...] = ()
    labels: dict[str, int] = field(default_factory=dict)
    variables: dict[str, tuple[int, str]] = field(default_factory=dict)
    items: dict[str, str] = field(default_factory=dict)
    others: dict[str, str] = field(default_factory=dict)
    named: bool = False

    def with_call(self, name: str, label: str | None) -> SentenceScope:
        """This scope with another call; a label hides an outer one."""
        labels = {**self.labels, **({label: len(self.calls)} if label else {})}
        return replace(self, calls=(*self.calls, name), labels=labels, named=False)

    @property
    def by_name(self) -> SentenceScope:
        """This scope, with the innermost call by its name."""
        return replace(self, named=True)

    def with_variable(self, name: str, argument: str) -> SentenceScope:
        """This scope with a variable that an argument of the last call binds."""
        return replace(self, variables={**self.variables, name: (len(self.calls) - 1, argument)})

    def with_item(self, name: str) -> SentenceScope:
        return replace(self, items={**self.items, name: f"the {ordinal(len(self.items) + 1)}item"})

    def next_call(self) -> str:
        """The name of a call of the history inside of this scope."""
        inner = sum(1 for call in self.calls if call.startswith("that "))
        return f"that {ordinal(inner + 1)}call"

    def is_known(self, variable: str) -> bool:
        return variable in self.variables or variable in self.items or variable in self.others

    def subject(self, label: str) -> str:
        """A call as the subject of a clause."""
        call = self.labels[label]
        return "it" if self._is_innermost(call) else self.calls[call]

    def possessive(self, call: int) -> str:
        return "its" if self._is_innermost(call) else f"{self.calls[call]}'s"

    def _is_innermost(self, call: int) -> bool:
        return not self.named and call == len(self.calls) - 1

    def variable(self, name: str) -> str:
        """The value of a variable."""
        if name in self.items:
            return self.items[name]
        if name in self.variables:
            call, argument = self.variables[name]
            return f"{self.possessive(call)} {code(argument)}"
        return self.others.get(name, code(name))

    def is_same_argument(self, variable: str, argument: str) -> bool:
        """Whether a variable is the argument with this name of the first call."""
        return self.variables.get(variable) == (0, argument)


# --- functions of the language

CONDITIONS: dict[str, tuple[str, str]] = {
    "mentions": ("mentions", "does not mention"),
    "has": ("has the key", "does not have the key"),
    "starts_with": ("starts with", "does not start with"),
    "ends_with": ("ends with", "does not end with"),
}
"""Functions of two values that are true or false: the verb, and its negation."""

VALUES: dict[tuple[str, int], str] = {
    ("find", 2): "the matches of {1} in {0}",
    ("links", 1): "the links in {0}",
    ("emails", 1): "the e-mail addresses in {0}",
    ("tokens", 1): "the tokens of {0}",
    ("number", 1): "the number written in {0}",
    ("lower", 1): "the lower-case form of {0}",
    ("abs", 1): "the absolute value of {0}",
    ("min", 1): "the least item of {0}",
    ("max", 1): "the greatest item of {0}",
    ("min", 2): "the least of ({0}, {1})",
    ("max", 2): "the greatest of ({0}, {1})",
    ("[:]", 2): "the items of {0} from place {1}",
    ("[:]", 3): "the items of {0} from place {1} up to before {2}",
    ("[=]", 3): "the row of {0} whose {1} is {2}",
    ("commands", 1): "the shell commands in {0}",
    ("statements", 1): "the SQL statements in {0}",
    ("statements", 2): "the SQL statements in ({0} in the dialect {1})",
    ("keys", 1): "the keys of {0}",
    ("values", 1): "the values of {0}",
    ("time", 1): "the instant {0}",
    ("time", 2): "the instant of {0} in the zone {1}",
    ("add_months", 2): "the date {1} months after {0}",
    ("add_days", 2): "the date {1} days after {0}",
    ("money", 1): "the amount of money {0}",
    ("hour", 1): "the hour of {0}",
    ("hour", 2): "the hour of ({0} in the zone {1})",
    ("minute", 1): "the minute of {0}",
    ("minute", 2): "the minute of ({0} in the zone {1})",
    ("weekday", 1): "the day of the week (1 for Monday to 7 for Sunday) of {0}",
    ("weekday", 2): "the day of the week (1 for Monday to 7 for Sunday) of ({0} in the zone {1})",
    ("date", 1): "the date of {0}",
    ("date", 2): "the date of ({0} in the zone {1})",
}
"""The value of a function for a number of values."""


# --- values

_ARITHMETIC = {"+": "plus", "-": "minus", "*": "times", "/": "divided by", "%": "modulo"}


def constant(node: ast.Constant | ast.ExactValue) -> str:
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | tuple | Mapping):
        return quoted(value) if isinstance(value, str) else f"the table {shown(value)}"
    return number_text(value)


def is_instant(node: Any) -> bool:
    if isinstance(node, ast.Arithmetic) and node.operator in "+-":
        return is_instant(node.left) and not is_instant(node.right)
    return isinstance(node, ast.Now | ast.TimeOf) or (isinstance(node, ast.Apply) and node.function == "time")


def _arithmetic(to: TermWords, node: ast.Arithmetic, scope: SentenceScope) -> str:
    phrase = to.seconds if is_instant(node) else to.operand
    return f"{to.operand(node.left, scope)} {_ARITHMETIC[node.operator]} {phrase(node.right, scope)}"


def _set_operation(to: TermWords, node: ast.SetOperation, scope: SentenceScope) -> str:
    kind = "union" if node.operator == "|" else "intersection"
    return f"the {kind} of ({to.listed((node.left, node.right), scope)})"


def _field(to: TermWords, node: ast.Field, scope: SentenceScope) -> str:
    names, body = [node.name], node.body
    while isinstance(body, ast.Field):
        names.insert(0, body.name)
        body = body.body
    return f"{code('.'.join(names))} of {to.operand(body, scope)}"


def _item(to: TermWords, node: ast.Item, scope: SentenceScope) -> str:
    at, whole = node.index, to.operand(node.body, scope)
    place = at.value if isinstance(at, ast.Constant) else None
    if type(place) is int and place in (0, -1):
        return f"the {'last' if place else 'first'} item of {whole}"
    return f"the item at {to.operand(at, scope)} of {whole}"


def _of_call(to: TermWords, node: ast.OfCall, scope: SentenceScope) -> str:
    what = {"args": "arguments"}.get(node.what, node.what)
    if isinstance(node.call, ast.Label):
        return f"{scope.possessive(scope.labels[node.call.name])} {what}"
    return f"the {what} of {to.call(node.call, scope)}"


def _apply(to: TermWords, node: ast.Apply, scope: SentenceScope) -> str:
    operands, template = operands_of(node), template_of(node)
    if template is not None:
        return template.format(*(to.operand(operand, scope) for operand in operands))
    return f"the result of {code(node.function)}{arguments_phrase(to, operands, scope)}"


def operands_of(node: ast.Apply) -> list[Any]:
    """The arguments of a function as written: a time zone may be left out."""
    return [argument for argument in node.arguments if argument != ast.Zone()]


def template_of(node: ast.Apply) -> str | None:
    operands = operands_of(node)
    if node.function == "date" and "YYYY" in str(getattr(operands[-1], "value", "")):
        return "the date {0} in the format {1}"
    return VALUES.get((node.function, len(operands)))


def arguments_phrase(to: TermWords, nodes: Sequence[Any], scope: SentenceScope) -> str:
    """The arguments of a function, or the keys of a counter."""
    text = to.listed(nodes, scope)
    return "" if not nodes else f" for {text}" if len(nodes) == 1 else f" for ({text})"


def _sum(to: TermWords, node: ast.SumCalls, scope: SentenceScope) -> str:
    text, inner = to.earlier(node, scope, "calls")
    return f"the sum of {to.operand(node.term, inner.by_name)} over the {text}"


def _fold(to: TermWords, node: ast.CallFold, scope: SentenceScope) -> str:
    text, inner = to.earlier(node, scope, "calls" if node.which == "distinct" else "call")
    if node.which == "distinct":
        return f"the number of different values of {to.operand(node.term, inner.by_name)} over the {text}"
    return f"the place of the last {text}{' that succeeded' if node.which == 'last ok' else ''}"


def _count_items(to: TermWords, node: ast.OverItems, scope: SentenceScope) -> str:
    inner = to.condition(node.condition, scope.with_item(node.variable))
    return f"the number of items of {to.operand(node.items, scope)} for which ({inner})"


_USED = {(ast.USAGE, "tokens"): "the tokens that models used", (ast.USAGE, "cost"): "the cost of models in dollars"}

VALUE_PHRASES: dict[type, Callable[..., str]] = {
    ast.Constant: lambda _, node, __: constant(node),
    ast.RegexValue: lambda _, node, __: code(f"/{node.regex}/"),
    ast.Variable: lambda _, node, scope: scope.variable(node.name),
    ast.ListOf: lambda to, node, scope: f"the list [{to.listed(node.items, scope)}]",
    ast.SetOf: lambda to, node, scope: f"the set {{{to.listed(node.items, scope)}}}",
    ast.SetOperation: _set_operation,
    ast.Apply: _apply,
    ast.Arithmetic: _arithmetic,
    ast.Negative: lambda to, node, scope: f"minus ({to.value(node.body, scope)})",
    ast.Length: lambda to, node, scope: f"the length of {to.operand(node.body, scope)}",
    ast.Field: _field,
    ast.Item: _item,
    ast.OfCall: _of_call,
    ast.TimeOf: lambda to, node, scope: f"the time of {to.call(node.call, scope)}",
    ast.Now: lambda _, __, ___: "now",
    ast.Elapsed: lambda _, __, ___: "the seconds since the first call",
    ast.Principal: lambda _, __, ___: "the principal",
    ast.Sources: lambda to, node, scope: f"the sources of {to.operand(node.body, scope)}",
    ast.MessagesText: lambda _, node, __: f"the text of the {node.role}'s messages",
    ast.CounterValue: lambda to, node, scope: f"the counter {code(node.name)}{arguments_phrase(to, node.keys, scope)}",
    ast.State: lambda _, __, ___: "the state",
    ast.StateOf: lambda to, node, scope: (
        f"the state's {code(node.function)}{arguments_phrase(to, node.arguments, scope)}"
    ),
    ast.Fact: lambda _, node, __: _USED.get(node.path) or f"the fact {code('.'.join(node.path))}",
    ast.CountCalls: lambda to, node, scope: f"the number of {to.earlier(node, scope, 'calls')[0]}",
    ast.SumCalls: _sum,
    ast.CallFold: _fold,
    ast.OverItems: _count_items,
}


# --- conditions and their negations

_COMPARED = {
    "==": "is",
    "!=": "is different from",
    "<": "is less than",
    "<=": "is at most",
    ">": "is more than",
    ">=": "is at least",
    "in": "is in",
}
_SETS = {"<": "is properly contained in", "<=": "is contained in", ">": "properly contains", ">=": "contains"}


def is_condition(node: Any) -> bool:
    """Whether a term is true or false by its form."""
    if isinstance(node, ast.OfCall):
        return node.what == "failed"
    if isinstance(node, ast.OverItems):
        return node.which != "count"
    if isinstance(node, ast.Apply):
        return node.function in CONDITIONS
    return type(node) in JOINED or (type(node) in CONDITION_PHRASES and not isinstance(node, ast.Constant))


def _and(to: TermWords, node: ast.And, scope: SentenceScope) -> str:
    return " and ".join(to.part(part, scope) for part in node.parts) if node.parts else "true"


def _or(to: TermWords, node: ast.Or, scope: SentenceScope) -> str:
    return either([to.part(part, scope) for part in node.parts])


def _implies(to: TermWords, node: ast.Implies, scope: SentenceScope) -> str:
    return f"if {to.part(node.first, scope)} then {to.part(node.second, scope)}"


def _compare(to: TermWords, node: ast.Compare, scope: SentenceScope, *, negated: bool) -> str:
    left, right = node.left, node.right
    if (folds := ast.folds_of(node)) is not None:
        return _since(to, node.operator, *folds, scope, negated=negated)
    if node.operator == "in":
        return _contained(to, node, scope, negated=negated)
    if negated:
        to.atoms -= 1
        return f"it is not true that ({to.condition(node, scope)})"
    phrase = to.seconds if _is_duration(left) or _is_duration(right) else to.value
    verbs = _SETS if _is_set(left) or _is_set(right) else _COMPARED
    return f"{phrase(left, scope)} {verbs.get(node.operator, _COMPARED[node.operator])} {phrase(right, scope)}"


def _since(
    to: TermWords, operator: str, left: ast.CallFold, right: ast.CallFold, scope: SentenceScope, *, negated: bool
) -> str:
    """The words for `since(p, !q)` and `previous(p)`."""
    no, (text, _) = " not" if negated else "", to.earlier(left, scope)
    if operator == "==":
        return f"the call before it is{no} an {text} that succeeded"
    other, _ = to.earlier(right, scope, "call")
    return f"it is{no} true that an {text} succeeded, and no {other} came after it"


def _contained(to: TermWords, node: ast.Compare, scope: SentenceScope, *, negated: bool) -> str:
    no = " not" if negated else ""
    if node.right == ast.Field(ast.Principal(), "roles"):
        return f"the principal {'does not have' if negated else 'has'} the role {to.operand(node.left, scope)}"
    left = to.operand(node.left, scope)
    if isinstance(node.right, ast.ListOf):
        return f"{left} is{no} one of {to.listed(node.right.items, scope) or 'nothing'}"
    return f"{left} is{no} in {to.operand(node.right, scope)}"


def _matches(to: TermWords, node: ast.Matches, scope: SentenceScope, *, negated: bool) -> str:
    verb = "does not match" if negated else "matches"
    return f"{to.operand(node.body, scope)} {verb} the pattern {code(f'/{node.regex}/')}"


def _known(to: TermWords, node: ast.Known, scope: SentenceScope, *, negated: bool) -> str:
    return f"{to.operand(node.body, scope)} is {'not ' if negated else ''}known"


def _seen(_: TermWords, node: ast.Seen, __: SentenceScope, *, negated: bool) -> str:
    return f"{'no' if negated else 'an'} output labelled {either([code(label) for label in node.labels])} has been seen"


def _some(to: TermWords, node: ast.SomeCall, scope: SentenceScope, *, negated: bool) -> str:
    return f"{'no' if negated else 'an'} {to.earlier(node, scope)[0]} ended well"


def _pending(to: TermWords, node: ast.CallInFlight, scope: SentenceScope, *, negated: bool) -> str:
    return f"{'no' if negated else 'an'} {to.earlier(node, scope)[0]} is in flight"


def _failed(to: TermWords, node: ast.OfCall, scope: SentenceScope, *, negated: bool) -> str:
    if node.what != "failed":
        return ""
    return f"{to.call(node.call, scope)} {'did not fail' if negated else 'failed'}"


def _over_items(to: TermWords, node: ast.OverItems, scope: SentenceScope, *, negated: bool) -> str:
    if node.which == "count":
        return ""
    if negated and node.which == "all":
        to.atoms -= 1
        return f"it is not true that ({to.condition(node, scope)})"
    every = "every item" if node.which == "all" else "no item" if negated else "at least one item"
    inner = to.condition(node.condition, scope.with_item(node.variable))
    return f"for {every} of {to.operand(node.items, scope)}, ({inner})"


def _applied(to: TermWords, node: ast.Apply, scope: SentenceScope, *, negated: bool) -> str:
    if node.function not in CONDITIONS:
        if template_of(node):
            return ""
        verb = "does not hold" if negated else "holds"
        return f"{code(node.function)} {verb}{arguments_phrase(to, operands_of(node), scope)}"
    verb = CONDITIONS[node.function][negated]
    return f"{to.operand(node.arguments[0], scope)} {verb} {to.operand(node.arguments[1], scope)}"


def _truth(_: TermWords, node: ast.Constant, __: SentenceScope, *, negated: bool) -> str:
    if not isinstance(node.value, bool):
        return ""
    return f"not {constant(node)}" if negated else constant(node)


JOINED: dict[type, Callable[..., str]] = {
    ast.And: _and,
    ast.Or: _or,
    ast.Implies: _implies,
    ast.Negation: lambda to, node, scope: to.condition(node.body, scope, negated=True),
}
CONDITION_PHRASES: dict[type, Callable[..., str]] = {
    ast.Compare: _compare,
    ast.Matches: _matches,
    ast.Known: _known,
    ast.Seen: _seen,
    ast.SomeCall: _some,
    ast.CallInFlight: _pending,
    ast.OfCall: _failed,
    ast.OverItems: _over_items,
    ast.Apply: _applied,
    ast.Constant: _truth,
}


def _is_set(node: Any) -> bool:
    return isinstance(node, ast.SetOf | ast.SetOperation | ast.Sources)


def _is_duration(node: Any) -> bool:
    """Whether a value is the difference of two instants."""
    return (
        isinstance(node, ast.Arithmetic) and node.operator == "-" and is_instant(node.left) and is_instant(node.right)
    )


# --- terms

_LOOSE = (ast.And, ast.Or, ast.Implies)
_COMPOUND = (ast.Arithmetic, ast.Negative)


class TermWords:
    """Words for the terms of one rule.

    Attributes:
        atoms: the number of conditions without parts.
        coded: the number of those that are shown as code.
    """

    def __init__(self) -> None:
        self.atoms = self.coded = 0

    # --- conditions

    def condition(self, node: Any, scope: SentenceScope, *, negated: bool = False) -> str:
        """The words for a condition, or for its negation."""
        if type(node) in JOINED and negated:
            return f"it is not true that ({self.condition(node, scope)})"
        if type(node) in JOINED:
            return JOINED[type(node)](self, node, scope)
        self.atoms += 1
        phrase = CONDITION_PHRASES.get(type(node))
        if phrase is not None and (text := phrase(self, node, scope, negated=negated)):
            return text
        return f"{self.value(node, scope)} {'does not hold' if negated else 'holds'}"

    def part(self, node: Any, scope: SentenceScope) -> str:
        """A condition beside others, in parentheses if it has parts."""
        text = self.condition(node, scope)
        return f"({text})" if isinstance(node, _LOOSE) else text

    # --- values

    def value(self, node: Any, scope: SentenceScope) -> str:
        """The words for a value."""
        if is_condition(node):
            return f"whether ({self.condition(node, scope)})"
        phrase = VALUE_PHRASES.get(type(node))
        if phrase is None:
            self.coded += 1
            return code(text_of(node))
        return phrase(self, node, scope)

    def operand(self, node: Any, scope: SentenceScope) -> str:
        """A value beside others, in parentheses if it has parts."""
        text = self.value(node, scope)
        return f"({text})" if isinstance(node, _COMPOUND) else text

    def listed(self, nodes: Any, scope: SentenceScope) -> str:
        return ", ".join(self.operand(node, scope) for node in nodes)

    def seconds(self, node: Any, scope: SentenceScope) -> str:
        """A value that is a length of time."""
        if isinstance(node, ast.Constant) and not isinstance(node.value, str | bool):
            return duration(node.value)
        return self.value(node, scope)

    # --- calls

    def pattern(
        self, node: ast.Pattern, scope: SentenceScope, name: str, *, proposed: bool = False
    ) -> tuple[str, str, SentenceScope]:
        """The words for the tools of a pattern, for the arguments, and the scope with the call."""
        inner, details = scope.with_call(name, node.label), []
        for argument in node.arguments:
            detail, inner = self._argument(argument, inner, proposed=proposed)
            details += [detail] if detail else []
        return _tools(node.tools), ", ".join(details), inner

    def _argument(self, argument: ast.Argument, scope: SentenceScope, *, proposed: bool) -> tuple[str, SentenceScope]:
        name, value = code(argument.name), argument.value
        match value:
            case ast.ExactValue():
                return f"with {name} equal to {constant(value)}", scope
            case ast.RegexValue(regex):
                return f"with {name} matching {code(f'/{regex}/')}", scope
            case ast.AnyValue():
                return f"with any {name}", scope
        if not scope.is_known(value.name):
            return "" if proposed else f"with {name} given", scope.with_variable(value.name, argument.name)
        if len(scope.calls) > 1 and scope.is_same_argument(value.name, argument.name):
            return f"with the same {name}", scope
        return f"with {name} equal to {scope.variable(value.name)}", scope

    def earlier(self, node: Any, scope: SentenceScope, calls: str = "call") -> tuple[str, SentenceScope]:
        """The words for calls of the history, and the scope of what is said of them."""
        tools, details, inner = self.pattern(node.pattern, scope, scope.next_call())
        within = getattr(node, "within", None)
        window = "" if within is None else f" {last(self._window(within, scope))}"
        return f"earlier {calls} of {tools}{window}{self.details(details, node.condition, inner)}", inner

    def details(self, details: str, condition: ast.Term, scope: SentenceScope) -> str:
        """Details of a call in parentheses; nothing if there are none."""
        such = "" if condition in (ast.TRUE, ast.And(())) else f"such that {self.condition(condition, scope)}"
        both = ", ".join(filter(None, (details, such)))
        return f" ({both})" if both else ""

    def _window(self, node: Any, scope: SentenceScope) -> str:
        text = self.seconds(node, scope)
        return text if isinstance(node, ast.Constant) else f"({text}) seconds"

    def call(self, node: ast.Label | ast.Selected, scope: SentenceScope) -> str:
        """A call as a subject or an object."""
        if isinstance(node, ast.Label):
            return scope.subject(node.name)
        text, _ = self.earlier(node, scope)
        return f"the {node.which} {text}"


def _tools(tools: tuple[str, ...]) -> str:
    if tools == ("*",):
        return "any tool"
    *first, final = [f"a tool of {code(tool)}" if tool.startswith("@") else code(tool) for tool in tools]
    return f"{', '.join(first)} or {final}" if first else final
