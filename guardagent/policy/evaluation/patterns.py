"""Call patterns: which calls a rule means.

A proposed call that lacks an argument still matches, with that variable unknown: a guard that cannot see an argument
does not look away. A past call that lacks it does not match. A text that differs from a pattern's literal only in case
or in surrounding space is neither the same nor another one: unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guardagent._support.patterns import compile_pattern
from guardagent.policy.language import ast
from guardagent.policy.language.values import Absent, Truth, Unknown, equal, kind_of, mismatch, shown

Test = Callable[[Any], Truth]
_MISSING = object()


def argument_of(args: Any, name: str) -> Any:
    """An argument of a proposed call; unknown where it is missing or null."""
    value = args.get(name, _MISSING)
    if value is _MISSING:
        return Unknown(Absent(f"argument {name!r} is missing"))
    return Unknown(f"argument {name!r} is null") if value is None else value


def argument_test(argument: ast.Argument) -> Test:
    """Whether an argument's value is what a pattern asks for; where that is unknown, the argument is named."""
    assert not isinstance(argument.value, ast.Variable)
    test = value_test(argument.value)

    def named(value: Any) -> Truth:
        found = test(value)
        if type(found) is Unknown and type(value) is not Unknown:
            return Unknown(f"argument {argument.name!r}: {found.why[0]}")
        return found

    return named


def value_test(wanted: ast.ExactValue | ast.RegexValue | ast.AnyValue) -> Test:
    """Whether a value is what a pattern asks for."""
    if isinstance(wanted, ast.AnyValue):
        return lambda _: True
    if isinstance(wanted, ast.RegexValue):
        return regex_test(wanted.regex)
    literal = wanted.value
    if isinstance(literal, str):
        return _text_test(literal)
    return lambda value: equal(value, literal)


def regex_test(regex: str) -> Test:
    """Whether the whole of a text matches, by a linear-time engine."""
    matches = compile_pattern(regex).fullmatch

    def test(value: Any) -> Truth:
        if kind_of(value) == "text":
            try:
                return matches(value) is not None
            except UnicodeError:
                return Unknown("a text cannot be matched: it is no valid one")
        return (
            value
            if type(value) is Unknown
            else Unknown(f"a {kind_of(value) or 'null'} cannot be matched: it is no text")
        )

    return test


def _text_test(literal: str) -> Test:
    folded = folded_name(literal)

    def test(value: Any) -> Truth:
        if type(value) is not str:
            return equal(value, literal) if kind_of(value) == "text" else mismatch(value, literal)
        if value == literal:
            return True
        if folded_name(value) == folded:
            return Unknown(f"{shown(value)} differs from {shown(literal)} only in case or space")
        return False

    return test


def folded_name(text: str) -> str:
    """A text without what may be an accident of writing: case, and space around it."""
    return text.strip().casefold()
