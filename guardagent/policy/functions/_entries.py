"""The mapping of `keys` and `values`: as for a field, a string is read as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from guardagent.policy.functions import RuleFunction
from guardagent.policy.language.parts import parsed
from guardagent.policy.language.values import Unknown, kind_name, kind_of


def of_mapping(listed: Callable[[Any], list[Any]]) -> RuleFunction:
    """A function of a mapping whose result is a list."""

    def entries(value: Any) -> Any:
        whole = parsed(str(value)) if kind_of(value) == "text" else value
        if type(whole) is Unknown:
            return whole
        return listed(whole) if kind_of(whole) == "mapping" else Unknown(f"a {kind_name(whole)} is not a mapping")

    return RuleFunction(entries, (("mapping", "text"),), result="list")
