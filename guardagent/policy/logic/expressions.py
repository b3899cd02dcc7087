"""Expressions over values that may be open: folded where they are constant, and equal where they are built alike.

A number, a text or a truth of Python is a constant. Everything else is a `Node`, which Z3 gets to see. A constant in
a node of its own (`fixed`) is not folded: then Z3 alone computes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Literal

Sort = Literal["truth", "number", "text"]
Expression = Any  # a Node, or a bool, int, Fraction or str


class ExpressionNode:
    """An operation on expressions.

    Attributes:
        sort: of its value.
        name: of the operation.
        parts: what it is applied to.
        is_open: whether a variable is in it.
    """

    __slots__ = ("_hash", "is_open", "name", "parts", "sort")

    def __init__(self, sort: Sort, name: str, *parts: Any) -> None:
        self.sort, self.name, self.parts = sort, name, parts
        self.is_open: bool = name in _VARIABLES or any(isinstance(one, ExpressionNode) and one.is_open for one in parts)
        self._hash = hash((sort, name, parts))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, ExpressionNode)
            and self._hash == other._hash
            and (self.sort, self.name, self.parts) == (other.sort, other.name, other.parts)
        )

    def __repr__(self) -> str:
        return f"({self.name} {' '.join(map(repr, self.parts))})"


_VARIABLES = ("variable", "whole variable")


def variable(sort: Sort, name: str) -> ExpressionNode:
    return ExpressionNode(sort, "variable", name)


def whole_variable(name: str) -> ExpressionNode:
    return ExpressionNode("number", "whole variable", name)


def fixed(sort: Sort, value: Any) -> ExpressionNode:
    """A constant that is not folded."""
    return ExpressionNode(sort, "fixed", value)


# --- truths


def conj(*parts: Expression) -> Expression:
    return _folded("and", parts, neutral=True)


def disj(*parts: Expression) -> Expression:
    return _folded("or", parts, neutral=False)


def _folded(name: str, parts: Iterable[Expression], *, neutral: bool) -> Expression:
    found: dict[Expression, None] = {}
    for part in parts:
        if part is neutral:
            continue
        if not isinstance(part, ExpressionNode):
            return not neutral
        found.update(dict.fromkeys(part.parts) if part.name == name else {part: None})
    if len(found) > 1 and any(one.name == "not" and one.parts[0] in found for one in found):
        return not neutral
    return neutral if not found else next(iter(found)) if len(found) == 1 else ExpressionNode("truth", name, *found)


def neg(part: Expression) -> Expression:
    if not isinstance(part, ExpressionNode):
        return not part
    return part.parts[0] if part.name == "not" else ExpressionNode("truth", "not", part)


def implies(first: Expression, second: Expression) -> Expression:
    return disj(neg(first), second)


def same(left: Expression, right: Expression) -> Expression:
    """Whether two expressions of one sort are equal."""
    if not isinstance(left, ExpressionNode) and not isinstance(right, ExpressionNode):
        return left == right
    return True if left == right else ExpressionNode("truth", "=", left, right)


def less(left: Expression, right: Expression) -> Expression:
    """Of two numbers or two texts."""
    if not isinstance(left, ExpressionNode) and not isinstance(right, ExpressionNode):
        return left < right
    return ExpressionNode("truth", "<", left, right)


# --- numbers


def _modulo(left: Any, right: Any) -> Any:
    return Fraction(left) % Fraction(right)


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: Fraction(left) / Fraction(right),
    "%": _modulo,
}


def arithmetic(left: Expression, sign: str, right: Expression) -> Expression:
    """The exact result; a divisor is not 0."""
    if isinstance(left, ExpressionNode) or isinstance(right, ExpressionNode):
        return left if right == 0 and sign in "+-" else ExpressionNode("number", sign, left, right)
    return normalized(_ARITHMETIC[sign](left, right))


def normalized(value: int | Fraction) -> int | Fraction:
    """A whole number as one."""
    return value.numerator if value.denominator == 1 else value


def conditional(condition: Expression, then: Expression, otherwise: Expression) -> Expression:
    """One of two numbers."""
    if not isinstance(condition, ExpressionNode):
        return then if condition else otherwise
    return ExpressionNode("number", "if", condition, then, otherwise)


def is_whole(number: Expression) -> Expression:
    return (
        ExpressionNode("truth", "whole", number)
        if isinstance(number, ExpressionNode)
        else Fraction(number).denominator == 1
    )


# --- texts


def size(text: Expression) -> Expression:
    return ExpressionNode("number", "size", text) if isinstance(text, ExpressionNode) else len(text)


def is_substring(part: Expression, whole: Expression) -> Expression:
    """Whether a text is a part of another."""
    if isinstance(part, ExpressionNode) or isinstance(whole, ExpressionNode):
        return ExpressionNode("truth", "within", part, whole)
    return part in whole


def full_match(text: ExpressionNode, regex: str) -> ExpressionNode:
    """Whether the whole of a text matches an expression of RE2."""
    return ExpressionNode("truth", "matches", text, regex)


def equal_folded(text: ExpressionNode, folded: str) -> ExpressionNode:
    """Whether a text without case, and without space around it, is a given one."""
    return ExpressionNode("truth", "alike", text, folded)
