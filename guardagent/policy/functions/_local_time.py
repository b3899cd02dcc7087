"""The shape of the functions of an instant in a time zone, by default that of the session's clock."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

from guardagent.policy.functions import RuleFunction
from guardagent.policy.language.instants import local_time
from guardagent.policy.language.values import Unknown


def of_local_time(
    read: Callable[[dt.datetime], Any], result: str = "number", limits: tuple[int, int] | None = None
) -> RuleFunction:
    """The function that reads a part of the local time."""

    def evaluate(seconds: Any, zone: str) -> Any:
        local = local_time(seconds, zone)
        return local if isinstance(local, Unknown) else read(local)

    return RuleFunction(evaluate, (("number",), ("text",)), required=1, result=result, zoned=True, range=limits)
