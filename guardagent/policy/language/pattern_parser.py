"""Parses patterns of calls: tools, arguments, labels and variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

from guardagent._support.syntax import PatternError, compile_pattern
from guardagent.errors import name_hint
from guardagent.policy.file.source_tree import shortened
from guardagent.policy.language import ast
from guardagent.policy.language.declarations import Declarations
from guardagent.policy.language.grammar import Node, TemporalError, unquoted
from guardagent.types.verdicts import MAX_DIGITS

NULLS = ("null", "None", "none", "nil")
_KINDS = ("tool", "action", "decision")
RESERVED = frozenset({"state", "true", "false", "True", "False", "in", "matches"})


@dataclass
class BoundNames:
    """The names in scope at one place of a rule.

    Attributes:
        variables: the bound variables.
        labels: the bound labels, each with whether the output of its call is available.
    """

    variables: set[str] = field(default_factory=set)
    labels: dict[str, bool] = field(default_factory=dict)

    def copy(self) -> BoundNames:
        return BoundNames(set(self.variables), dict(self.labels))


class PatternParser:
    """Parses the patterns of one rule over data."""

    def __init__(self, text: str, declared: Declarations) -> None:
        self._text, self._declared = text, declared

    def _source_label(self, token: Any) -> str:
        found = self._declared.find(str(token), self._declared.labels)
        if found is None:
            self._fail(
                f"unknown label {str(token)!r}{name_hint(str(token), self._declared.labels)}; declare it in 'labels:'",
                token,
            )
        return found

    def _pattern(self, tree: Node, scope: BoundNames, *, proposed: bool = False) -> ast.Pattern:
        """Reads a pattern and adds its label and variables to the scope."""
        label, tools, *arguments = tree.children
        read = tuple(self._argument(child, scope) for child in arguments if child is not None)
        names = [argument.name for argument in read]
        if twice := [name for name in names if names.count(name) > 1]:
            self._fail(f"argument {twice[0]!r} appears twice; remove one", tree)
        if label is not None:
            if label in _KINDS:
                self._fail(
                    f"{str(label)!r} cannot be a label; expected a pattern 'TOOL(...)', or 'f:TOOL(...)' with a label",
                    label,
                )
            if label in scope.labels or label in scope.variables:
                self._fail(f"the name {str(label)!r} is already in use; choose another label", label)
            self._refuse_declared(label)
            scope.labels[str(label)] = not proposed
        for argument in read:
            if isinstance(argument.value, ast.Variable):
                scope.variables.add(argument.value.name)
        return ast.Pattern(tuple(map(self._tool, tools.children)), read, label and str(label), place_of(tree))

    def _tool(self, tree: Node) -> str:
        if tree.data == "tagged":
            return f"@{tree.children[0]}"
        return self._name(tree.children[0])

    def _name(self, token: Any) -> str:
        return unquoted(token, self._text) if token.type == "QUOTED" else str(token)

    def _argument(self, tree: Node, scope: BoundNames) -> ast.Argument:
        name, value = tree.children
        if name.type == "NAME" and not name.isidentifier():
            self._fail(f"{str(name)!r} is not a plain argument name; if it is the name, write it in quotes", name)
        return ast.Argument(self._name(name), self._value(value, scope))

    def _value(self, tree: Node, scope: BoundNames) -> ast.ExactValue | ast.RegexValue | ast.AnyValue | ast.Variable:
        match tree.data:
            case "anything":
                return ast.AnyValue()
            case "regex":
                return ast.RegexValue(self._regex(tree.children[0]))
            case "variable":
                token = tree.children[0]
                if token in NULLS:
                    self._fail(
                        f"{str(token)!r} is not a value; to test that an argument is present, write 'known(x)'", token
                    )
                if token in RESERVED or token in scope.labels:
                    self._fail(f"{str(token)!r} cannot name a variable; choose another name", token)
                if token not in scope.variables:
                    self._refuse_declared(token)
                return ast.Variable(str(token), place_of(token))
        return ast.ExactValue(self._constant(tree).value)

    def _regex(self, token: Any) -> str:
        regex = token[1:-1].replace("\\/", "/")
        try:
            compile_pattern(regex)
        except PatternError as error:
            self._fail(f"invalid regular expression: {shortened(str(error))}; expected RE2 syntax", token)
        return str(regex)

    def _constant(self, tree: Node) -> ast.Constant:
        match tree.data:
            case "text":
                return ast.Constant(unquoted(tree.children[0], self._text))
            case "number":
                return ast.Constant(self._number(tree.children[0]))
            case "negative":
                return ast.Constant(-self._number(tree.children[-1]))
            case "true" | "false":
                return ast.Constant(tree.data == "true")
        raise AssertionError(tree.data)

    def _refuse_declared(self, token: Any) -> None:
        """Rejects a variable with the name of a constant: it would match any value."""
        for kind, table in (("constant", self._declared.constants), ("definition", self._declared.definitions)):
            if self._declared.find(str(token), table) is not None:
                self._fail(
                    f"{str(token)!r} is a {kind}, so it cannot name a variable; "
                    "choose another name, and compare the values in a condition",
                    token,
                )

    def _number(self, token: Any) -> int | Fraction:
        if len(token) > MAX_DIGITS:
            self._fail(f"the number has {len(token):,} digits; expected at most {MAX_DIGITS}", token)
        number = Fraction(str(token))
        return int(number) if number.denominator == 1 else number

    def _fail(self, problem: str, where: Any) -> NoReturn:
        place = place_of(where)
        raise TemporalError(problem, self._text, place.line, place.column)


def token_at(token: Any, text: str) -> Any:
    """A part of a token, at its place."""
    part = type(token)(text)
    part.type, part.line, part.column = token.type, token.line, token.column
    return part


def place_of(where: Any) -> ast.Place:
    return ast.Place(getattr(where, "line", 1), getattr(where, "column", 1))
