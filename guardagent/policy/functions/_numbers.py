"""The numbers of `min` and `max`: the arguments, or the items of one list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guardagent.policy.functions import RuleFunction
from guardagent.policy.language.values import Unknown, exact, kind_name, kind_of


def of_numbers(choose: Callable[[list[Any]], Any]) -> RuleFunction:
    """A function of one or more numbers, or of a list of numbers."""

    def chosen(*values: Any) -> Any:
        listed = values[0] if kind_of(values[0]) == "list" and len(values) == 1 else values
        numbers: list[Any] = []
        for value in listed:
            if kind_of(value) != "number":
                return Unknown(f"a {kind_name(value)} is not a number")
            numbers.append(exact(value))
            if type(numbers[-1]) is Unknown:
                return numbers[-1]
        return choose(numbers) if numbers else Unknown("a list is empty")

    return RuleFunction(chosen, (("number", "list"),), repeated=True, result="number")
