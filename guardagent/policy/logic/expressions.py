"""Expressions over symbolic values, with constant folding and structural equality.

A Python number, string or truth value is a constant. Everything else is an `ExpressionNode`, which is translated to Z3.
A constant in a `fixed` node is not folded, so that only Z3 computes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, Literal

Sort = Literal["truth", "number", "text"]
Expression = Any  # an ExpressionNode, bool, int, Fraction or str


class ExpressionNode:
    """An operation on expressions.

    Attributes:
        sort: the sort of its value.
        name: the operation.
        parts: the operands.
        is_open: whether it contains a variable.
    """

    __slots__ = ("_hash", "is_open", "name", "parts", "sort")

    def __init__(self, sort: Sort, name: str, *parts: Any) -> None:
        self.sort, self.name, self.parts = sort, name, parts
        self.is_open: bool = name in _VARIABLES or any(
            isinstance(part, ExpressionNode) and part.is_open for part in parts
        )
        self._hash = hash((sort, name, parts))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ExpressionNode) or self._hash != other._hash:
            return False
        if (self.sort, self.name, self.parts) != (other.sort, other.name, other.parts):
            return False
        other.parts = self.parts  # expressions share parts, so comparing copies again and again takes exponential time
        return True

    def __repr__(self) -> str:
        return f"({self.name} {' '.join(map(repr, self.parts))})"


_VARIABLES = ("variable", "whole variable")


def variable(sort: Sort, name: str) -> ExpressionNode:
    return ExpressionNode(sort, "variable", name)


def whole_variable(name: str) -> ExpressionNode:
    return ExpressionNode("number", "whole variable", name)


def fixed(sort: Sort, value: Any) -> ExpressionNode:
    """Returns a constant that is not folded."""
    return ExpressionNode(sort, "fixed", value)


# --- truth values


def conj(*parts: Expression) -> Expression:
    return _folded("and", parts, neutral=True)


def disj(*parts: Expression) -> Expression:
    return _folded("or", parts, neutral=False)


def _folded(name: str, parts: Iterable[Expression], *, neutral: bool) -> Expression:
    expressions: dict[Expression, None] = {}
    for part in parts:
        if part is neutral:
            continue
        if not isinstance(part, ExpressionNode):
            return not neutral
        expressions.update(dict.fromkeys(part.parts) if part.name == name else {part: None})
    if len(expressions) > 1 and any(
        expression.name == "not" and expression.parts[0] in expressions for expression in expressions
    ):
        return not neutral
    return (
        neutral
        if not expressions
        else next(iter(expressions))
        if len(expressions) == 1
        else ExpressionNode("truth", name, *expressions)
    )


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
    """Compares two numbers or two strings."""
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
    """Returns the exact result; a divisor must not be 0."""
    if isinstance(left, ExpressionNode) or isinstance(right, ExpressionNode):
        return left if right == 0 and sign in "+-" else ExpressionNode("number", sign, left, right)
    return normalized(_ARITHMETIC[sign](left, right))


def normalized(value: int | Fraction) -> int | Fraction:
    """Converts a fraction without a fractional part to an int."""
    return value.numerator if value.denominator == 1 else value


def conditional(condition: Expression, then: Expression, otherwise: Expression) -> Expression:
    """Returns one of two numbers."""
    if not isinstance(condition, ExpressionNode):
        return then if condition else otherwise
    return ExpressionNode("number", "if", condition, then, otherwise)


def least(left: Expression, right: Expression) -> Expression:
    return conditional(less(left, right), left, right)


def greatest(left: Expression, right: Expression) -> Expression:
    return conditional(less(left, right), right, left)


def is_whole(number: Expression) -> Expression:
    return (
        ExpressionNode("truth", "whole", number)
        if isinstance(number, ExpressionNode)
        else Fraction(number).denominator == 1
    )


# --- strings


def size(text: Expression) -> Expression:
    return ExpressionNode("number", "size", text) if isinstance(text, ExpressionNode) else len(text)


def is_substring(part: Expression, whole: Expression) -> Expression:
    """Whether a string contains another."""
    if isinstance(part, ExpressionNode) or isinstance(whole, ExpressionNode):
        return ExpressionNode("truth", "within", part, whole)
    return part in whole


def starts_with(text: Expression, start: Expression) -> Expression:
    if isinstance(text, ExpressionNode) or isinstance(start, ExpressionNode):
        return ExpressionNode("truth", "starts", start, text)
    return text.startswith(start)


def ends_with(text: Expression, end: Expression) -> Expression:
    if isinstance(text, ExpressionNode) or isinstance(end, ExpressionNode):
        return ExpressionNode("truth", "ends", end, text)
    return text.endswith(end)


def concatenation(left: Expression, right: Expression) -> Expression:
    if isinstance(left, ExpressionNode) or isinstance(right, ExpressionNode):
        return ExpressionNode("text", "joined", left, right)
    return left + right


def full_match(text: ExpressionNode, regex: str) -> ExpressionNode:
    """Whether a whole string matches an RE2 expression."""
    return ExpressionNode("truth", "matches", text, regex)


def equal_folded(text: ExpressionNode, folded: str) -> ExpressionNode:
    """Whether a string without case and surrounding space equals a folded one."""
    return ExpressionNode("truth", "alike", text, folded)
