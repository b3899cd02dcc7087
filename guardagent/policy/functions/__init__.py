"""The functions of the language: each module of this package is one, named after it, and defines `FUNCTION`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from guardagent._support.plugins import Plugins
from guardagent.policy.language.values import Unknown, exact, kind_name, kind_of

FUNCTIONS = Plugins("function", "guardagent.policy.functions", ("FUNCTION",))
REGEX = "regular expression"
"""The kind of a parameter that is written as `/.../` in the rule."""


@dataclass(frozen=True, slots=True)
class RuleFunction:
    """A function of values. It reads nothing else, and has no effect.

    Attributes:
        evaluate: computes the result from values of the expected kinds: strings, exact numbers, booleans, lists,
            mappings, sets, and regular expressions as strings. It returns `Unknown` for values that have no result.
        parameters: the kinds that each parameter accepts; empty accepts every kind but null.
        required: the number of required parameters; None requires all.
        repeated: whether the last parameter can be repeated.
        result: the kind of the result; empty if it varies.
        range: the least and the greatest result, of a function whose results are numbers.
        zoned: whether the last parameter is a time zone, by default that of the session's clock.
    """

    evaluate: Callable[..., Any]
    parameters: tuple[tuple[str, ...], ...]
    required: int | None = None
    repeated: bool = False
    result: str = ""
    zoned: bool = False
    range: tuple[int, int] | None = None

    def apply(self, values: list[Any]) -> Any:
        """The result; unknown if a value is unknown or of another kind."""
        for at, value in enumerate(values):
            if type(value) is Unknown:
                return value.unbounded
            kinds = self.kinds(at)
            kind = kind_of(value)
            if kind is None:
                return Unknown("a value is null" if value is None else "a value is not a JSON value")
            if kinds and kind not in kinds and kinds != (REGEX,):
                return Unknown(f"a {kind_name(value)} is not {self.expected(at)}")
            if kind == "number":
                values[at] = number = exact(value)
                if type(number) is Unknown:
                    return number
        return self.evaluate(*values)

    def kinds(self, at: int) -> tuple[str, ...]:
        """The kinds that the argument at this position accepts."""
        return self.parameters[at if at < len(self.parameters) else -1] if self.parameters else ()

    def expected(self, at: int) -> str:
        """The kinds that the argument at this position accepts, as text."""
        return " or ".join(f"a {_NAMES.get(kind, kind)}" for kind in self.kinds(at))

    def accepts(self, number: int) -> bool:
        """Whether the function can have so many arguments."""
        least = len(self.parameters) if self.required is None else self.required
        return least <= number and (self.repeated or number <= len(self.parameters))


_NAMES = {"text": "string", "truth value": "boolean", REGEX: "regular expression between slashes"}


@cache
def function(name: str) -> RuleFunction | None:
    """The function with this name, or None."""
    return FUNCTIONS.load(name).FUNCTION if name in FUNCTIONS.shipped() else None
