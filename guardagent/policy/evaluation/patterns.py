"""Compiles the tests of call patterns.

A proposed call without an argument of the pattern still matches, and the variable is unknown, so that leaving out an
argument cannot avoid a rule. A past call without the argument does not match. A string that differs from a literal only
in case or surrounding space gives unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guardagent._support.syntax import compile_pattern
from guardagent.policy.language import ast
from guardagent.policy.language.values import Absent, Truth, Unknown, equal, kind_name, kind_of, mismatch, shown

Test = Callable[[Any], Truth]
_MISSING = object()


def argument_of(args: Any, name: str) -> Any:
    """An argument of a proposed call; unknown if missing or null."""
    value = args.get(name, _MISSING)
    if value is _MISSING:
        return Unknown(Absent(f"argument {name!r} is missing"))
    return Unknown(f"argument {name!r} is null") if value is None else value


def argument_test(argument: ast.Argument) -> Test:
    """Compiles the test of an argument. Unknown results name the argument."""
    assert not isinstance(argument.value, ast.Variable)
    test = value_test(argument.value)

    def named(value: Any) -> Truth:
        found = test(value)
        if type(found) is Unknown and type(value) is not Unknown and not found.unrecorded:
            return Unknown(f"argument {argument.name!r}: {found.why[0]}")
        return found

    return named


def value_test(wanted: ast.ExactValue | ast.RegexValue | ast.AnyValue) -> Test:
    """Compiles the test of a value."""
    if isinstance(wanted, ast.AnyValue):
        return lambda _: True
    if isinstance(wanted, ast.RegexValue):
        return regex_test(wanted.regex)
    literal = wanted.value
    if isinstance(literal, str):
        return _text_test(literal)
    return lambda value: equal(value, literal)


def regex_test(regex: str) -> Test:
    """Compiles a full match of a string, with a linear-time engine."""
    matches = compile_pattern(regex).fullmatch

    def test(value: Any) -> Truth:
        if kind_of(value) == "text":
            try:
                return matches(value) is not None
            except UnicodeError:
                return Unknown("a string cannot be matched: it is not valid Unicode")
        return (
            value if type(value) is Unknown else Unknown(f"a {kind_name(value)} cannot be matched; expected a string")
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
    """A string without case and surrounding space."""
    return text.strip().casefold()
