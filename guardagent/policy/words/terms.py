"""Puts conditions and values into words.

Each text has one reading: a condition inside of another stands in parentheses, and a condition that is used as a value
is `whether (...)`. So different conditions have different texts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.language.rule_text import number_text
from guardagent.policy.words.function_phrases import CONDITIONS, VALUES
from guardagent.policy.words.phrases import code, duration, either, last, quoted
from guardagent.policy.words.scope import SentenceScope

_COMPARED = {
    "==": "is",
    "!=": "is different from",
    "<": "is less than",
    "<=": "is at most",
    ">": "is more than",
    ">=": "is at least",
    "in": "is in",
}
_SETS = {
    "<": "is properly contained in",
    "<=": "is contained in",
    ">": "properly contains",
    ">=": "contains",
}
_ARITHMETIC = {"+": "plus", "-": "minus", "*": "times", "/": "divided by", "%": "modulo"}
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
        if type(node) in _JOINED and negated:
            return f"it is not true that ({self.condition(node, scope)})"
        if type(node) in _JOINED:
            return _JOINED[type(node)](self, node, scope)
        self.atoms += 1
        phrase = _CONDITIONS.get(type(node))
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
        phrase: Callable[..., str] | None = _VALUES.get(type(node))
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
                return f"with {name} equal to {_constant(value)}", scope
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


def is_condition(node: Any) -> bool:
    """Whether a term is true or false by its form."""
    if isinstance(node, ast.OfCall):
        return node.what == "failed"
    if isinstance(node, ast.OverItems):
        return node.which != "count"
    if isinstance(node, ast.Apply):
        return node.function in CONDITIONS
    return type(node) in _JOINED or (type(node) in _CONDITIONS and not isinstance(node, ast.Constant))


def _tools(tools: tuple[str, ...]) -> str:
    if tools == ("*",):
        return "any tool"
    *first, final = [f"a tool of {code(tool)}" if tool.startswith("@") else code(tool) for tool in tools]
    return f"{', '.join(first)} or {final}" if first else final


def _constant(node: ast.Constant | ast.ExactValue) -> str:
    value = node.value
    if isinstance(value, bool):
        return "true" if value else "false"
    return quoted(value) if isinstance(value, str) else number_text(value)


# --- conditions by kind: (words, node, scope, negated=...) -> text


def _and(to: TermWords, node: ast.And, scope: SentenceScope) -> str:
    return " and ".join(to.part(part, scope) for part in node.parts) if node.parts else "true"


def _or(to: TermWords, node: ast.Or, scope: SentenceScope) -> str:
    return either([to.part(part, scope) for part in node.parts])


def _implies(to: TermWords, node: ast.Implies, scope: SentenceScope) -> str:
    return f"if {to.part(node.first, scope)} then {to.part(node.second, scope)}"


def _compare(to: TermWords, node: ast.Compare, scope: SentenceScope, *, negated: bool) -> str:
    left, right = node.left, node.right
    if node.operator == "in":
        return _contained(to, node, scope, negated=negated)
    if negated:
        to.atoms -= 1
        return f"it is not true that ({to.condition(node, scope)})"
    phrase = to.seconds if _is_duration(left) or _is_duration(right) else to.value
    verbs = _SETS if _is_set(left) or _is_set(right) else _COMPARED
    return f"{phrase(left, scope)} {verbs.get(node.operator, _COMPARED[node.operator])} {phrase(right, scope)}"


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
    return f"{'no' if negated else 'an'} output labelled {either([code(one) for one in node.labels])} has been seen"


def _some(to: TermWords, node: ast.SomeCall, scope: SentenceScope, *, negated: bool) -> str:
    return f"{'no' if negated else 'an'} {to.earlier(node, scope)[0]} ended well"


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
        return (
            ""
            if _template(node)
            else f"{code(node.function)} {'does not hold' if negated else 'holds'}{_for(to, _operands(node), scope)}"
        )
    verb = CONDITIONS[node.function][negated]
    return f"{to.operand(node.arguments[0], scope)} {verb} {to.operand(node.arguments[1], scope)}"


def _truth(_: TermWords, node: ast.Constant, __: SentenceScope, *, negated: bool) -> str:
    if not isinstance(node.value, bool):
        return ""
    return f"not {_constant(node)}" if negated else _constant(node)


_JOINED: dict[type, Callable[..., str]] = {
    ast.And: _and,
    ast.Or: _or,
    ast.Implies: _implies,
    ast.Negation: lambda to, node, scope: to.condition(node.body, scope, negated=True),
}
_CONDITIONS: dict[type, Callable[..., str]] = {
    ast.Compare: _compare,
    ast.Matches: _matches,
    ast.Known: _known,
    ast.Seen: _seen,
    ast.SomeCall: _some,
    ast.OfCall: _failed,
    ast.OverItems: _over_items,
    ast.Apply: _applied,
    ast.Constant: _truth,
}


# --- values by kind: (words, node, scope) -> text


def _is_set(node: Any) -> bool:
    return isinstance(node, ast.SetOf | ast.SetOperation | ast.Sources)


def _is_instant(node: Any) -> bool:
    if isinstance(node, ast.Arithmetic) and node.operator in "+-":
        return _is_instant(node.left) and not _is_instant(node.right)
    return isinstance(node, ast.Now | ast.TimeOf) or (isinstance(node, ast.Apply) and node.function == "time")


def _is_duration(node: Any) -> bool:
    """Whether a value is the difference of two instants."""
    return (
        isinstance(node, ast.Arithmetic) and node.operator == "-" and _is_instant(node.left) and _is_instant(node.right)
    )


def _arithmetic(to: TermWords, node: ast.Arithmetic, scope: SentenceScope) -> str:
    phrase = to.seconds if _is_instant(node) else to.operand
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
    operands, template = _operands(node), _template(node)
    if template is not None:
        return template.format(*(to.operand(one, scope) for one in operands))
    return f"the result of {code(node.function)}{_for(to, operands, scope)}"


def _operands(node: ast.Apply) -> list[Any]:
    """The arguments of a function as written: a time zone may be left out."""
    return [one for one in node.arguments if one != ast.Zone()]


def _template(node: ast.Apply) -> str | None:
    return VALUES.get((node.function, len(_operands(node))))


def _for(to: TermWords, nodes: Sequence[Any], scope: SentenceScope) -> str:
    """The arguments of a function, or the keys of a counter."""
    text = to.listed(nodes, scope)
    return "" if not nodes else f" for {text}" if len(nodes) == 1 else f" for ({text})"


def _sum(to: TermWords, node: ast.SumCalls, scope: SentenceScope) -> str:
    text, inner = to.earlier(node, scope, "calls")
    return f"the sum of {to.operand(node.term, inner.by_name)} over the {text}"


def _count_items(to: TermWords, node: ast.OverItems, scope: SentenceScope) -> str:
    inner = to.condition(node.condition, scope.with_item(node.variable))
    return f"the number of items of {to.operand(node.items, scope)} for which ({inner})"


_VALUES: dict[type, Callable[..., str]] = {
    ast.Constant: lambda _, node, __: _constant(node),
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
    ast.Principal: lambda _, __, ___: "the principal",
    ast.Sources: lambda to, node, scope: f"the sources of {to.operand(node.body, scope)}",
    ast.CounterValue: lambda to, node, scope: f"the counter {code(node.name)}{_for(to, node.keys, scope)}",
    ast.State: lambda _, __, ___: "the state",
    ast.StateOf: lambda to, node, scope: f"the state's {code(node.function)}{_for(to, node.arguments, scope)}",
    ast.Fact: lambda _, node, __: f"the fact {code('.'.join(node.path))}",
    ast.CountCalls: lambda to, node, scope: f"the number of {to.earlier(node, scope, 'calls')[0]}",
    ast.SumCalls: _sum,
    ast.OverItems: _count_items,
}
