"""The functions of the language.

A function with the decorator `rule_function` is one, under the name that rules call; its docstring begins with a call
and says what comes of it, since the language page for models is made of it. Each needs a row in
`tests/policy/evaluation/test_operands_function_calls.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from guardagent.policy.language.values import Unknown, exact, kind_name, kind_of

REGEX = "regular expression"
"""The kind of a parameter that is written as `/.../` in the rule."""
JSON = ("mapping", "text")
"""The kinds of a parameter that is a mapping, or a string that contains one as JSON."""


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
        require: raises an InputError if a package that the function needs is not installed.
        problem: what is wrong with a constant as the last argument; None if nothing is.
        zoned: whether the last parameter is a time zone, by default that of the session's clock.
    """

    evaluate: Callable[..., Any]
    parameters: tuple[tuple[str, ...], ...]
    required: int | None = None
    repeated: bool = False
    result: str = ""
    zoned: bool = False
    range: tuple[int, int] | None = None
    require: Callable[[], None] | None = None
    problem: Callable[[Any], str | None] | None = None

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
        """Whether the function accepts this number of arguments."""
        least = len(self.parameters) if self.required is None else self.required
        return least <= number and (self.repeated or number <= len(self.parameters))


JSON_LIST = ("list", "text")
"""The kinds of a parameter that is a list, or a string that contains one as JSON."""
_NAMES = {"text": "string", "truth value": "boolean", REGEX: "regular expression between slashes"}
_FUNCTIONS: dict[str, RuleFunction] = {}


def rule_function(name: str, *parameters: tuple[str, ...], **shape: Any) -> Callable[..., Any]:
    """Makes a function of the language; `parameters` and `shape` are attributes of `RuleFunction`."""

    def register(evaluate: Callable[..., Any]) -> Callable[..., Any]:
        _FUNCTIONS[name] = RuleFunction(evaluate, parameters, **shape)
        return evaluate

    return register


@cache
def rule_functions() -> Mapping[str, RuleFunction]:
    """The functions by name, in alphabetical order."""
    from guardagent.policy.functions import numbers, parsers, strings  # noqa: F401 - they need this module, and fill the table

    return dict(sorted(_FUNCTIONS.items()))


def function(name: str) -> RuleFunction | None:
    """The function with this name, or None."""
    return rule_functions().get(name)
