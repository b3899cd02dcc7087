"""The values that a constant accepts, as its declaration states them; an including file has to keep to them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from guardagent._support.syntax import compile_pattern
from guardagent.errors import name_hint
from guardagent.policy.file.source_tree import shortened
from guardagent.policy.language.declarations import Constant

TYPES = MappingProxyType(
    {
        "string": ("string", ""),
        "number": ("number", ""),
        "whole number": ("number", "whole number"),
        "boolean": ("boolean", ""),
        "duration": ("duration", ""),
        "list": ("list", ""),
        "list of strings": ("list", "string"),
        "list of numbers": ("list", "number"),
    }
)
"""A type -> (the kind of the value, the kind of its items or of the number)."""
_NUMBERS = ("number", "whole number", "duration", "list of numbers")
_STRINGS = ("string", "list of strings")


@dataclass(frozen=True, slots=True)
class ConstantLimits:
    """The limits of a constant; those of a list concern each item.

    Attributes:
        type: one of `TYPES`; empty for any value.
        choices: the allowed values; empty for all.
        matches: a regular expression (RE2) for the whole string; empty for all strings.
        least: the least number; None for all.
        most: the greatest number; None for all.
        expected: the meaning of the limits, for messages.
    """

    type: str = ""
    choices: tuple[Constant, ...] = ()
    matches: str = ""
    least: int | Fraction | None = None
    most: int | Fraction | None = None
    expected: str = ""

    def misplaced(self) -> str:
        """The key of a limit that no value of the type has; empty if they all fit."""
        if self.matches and self.type not in _STRINGS:
            return "matches"
        wrong = [key for key in ("least", "most") if getattr(self, key) is not None and self.type not in _NUMBERS]
        return wrong[0] if wrong else ""

    def problem(self, value: Any, kind: str) -> str:
        """The problem with a value of a kind, and what is expected; empty if it is allowed."""
        wanted, items = TYPES.get(self.type, ("", ""))
        if wanted not in ("", kind):
            return f"is {f'a {kind}' if kind else 'empty'}; expected a {self.type}"
        for one in value if kind == "list" else (value,):
            if not (_is(one, items) and self._allows(one)):
                verb = "contains" if kind == "list" else "is"
                return f"{verb} {_shown(one)}{self._expectation(one)}"
        return ""

    def _allows(self, one: Constant) -> bool:
        return (
            (not self.choices or one in self.choices)
            and (not self.matches or compile_pattern(self.matches).fullmatch(one) is not None)
            and (self.least is None or one >= self.least)  # type: ignore[operator]
            and (self.most is None or one <= self.most)  # type: ignore[operator]
        )

    def _expectation(self, one: Constant) -> str:
        if self.choices and not self.expected:
            return name_hint(str(one), [_plain(choice) for choice in self.choices if choice != ""])
        bounds = [
            f"{word} {bound}" for word, bound in (("at least", self.least), ("at most", self.most)) if bound is not None
        ]
        stated = [f"a {self.type}" if self.type else "another value", *bounds]
        return f"; expected {self.expected or ', '.join(stated)}"


UNLIMITED = ConstantLimits()


def _is(value: Constant, kind: str) -> bool:
    """Whether a value is of the kind of an item."""
    if kind in ("number", "whole number"):
        return not isinstance(value, bool | str) and (kind == "number" or value == int(value))
    return kind != "string" or isinstance(value, str)


def _shown(value: Constant) -> str:
    if isinstance(value, str):
        return repr(shortened(value)) if value else "an empty string"
    return _plain(value)


def _plain(value: Constant) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(float(value) if isinstance(value, Fraction) else value)
