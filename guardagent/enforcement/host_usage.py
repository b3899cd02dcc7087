"""The usage of models in a conversation, as its host states it: the sum over their responses or runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from guardagent.errors import InputError

Amount = int | float | Decimal


@dataclass(slots=True)
class ModelUsage:
    """The usage of one conversation.

    Attributes:
        reports: the tokens and the cost of each response or run, by its name; None if the host does not state them.
        is_whole: whether the reports are of all responses, also of those before this process.
        before: the usage before this process, once it is known.
    """

    reports: dict[str | int, Mapping[str, Amount | None]] = field(default_factory=dict)
    is_whole: bool = False
    before: Mapping[str, Any] | None = None

    def note(self, name: str | None, **used: Amount | None) -> None:
        """Notes a response or a run. A later report of the same name replaces the earlier one.

        Raises:
            InputError: an amount is not a number from 0, or the name no string; the usage is unknown from now on.
        """
        wrong = [what for what, amount in used.items() if not _is_amount(amount, whole=what == "tokens")]
        is_named = name is None or isinstance(name, str)
        key = name if isinstance(name, str) else len(self.reports)
        self.reports[key] = used if is_named and not wrong else dict.fromkeys(used)
        if not is_named:
            raise InputError(f"the name of a response is a {type(name).__name__}; expected a string")
        if wrong:
            amount = used[wrong[0]]
            shown = "too large" if isinstance(amount, int) and amount > _MOST else f"{amount!r:.80}"
            raise InputError(f"{wrong[0]!r} of a response is {shown}; expected a number from 0, or None if unknown")

    def total(self, recorded: Mapping[str, Any] | None) -> dict[str, Amount | None]:
        """Returns the tokens and the cost so far; None where a part of it is unknown.

        Args:
            recorded: the usage at the last call of the conversation; None without one.
        """
        if self.before is None:
            self.before = recorded or {"tokens": 0, "cost": 0}
        return {what: self._sum(what, self.before.get(what)) for what in ("tokens", "cost")}

    def _sum(self, what: str, before: Amount | None) -> Amount | None:
        amounts = [report[what] for report in self.reports.values()]
        if None in amounts or before is None:
            return None
        used = sum((_exact(amount or 0) for amount in amounts), Fraction(0))
        used = max(used, _exact(before)) if self.is_whole else used + _exact(before)
        return int(used) if used.denominator == 1 else float(used)


def _exact(amount: Amount) -> Fraction:
    return Fraction(repr(amount) if isinstance(amount, float) else amount)


_MOST = 10**30  # of an amount, as of counters


def _is_amount(amount: Any, *, whole: bool) -> bool:
    if amount is None:
        return True
    kinds = (int,) if whole else (int, float, Decimal)
    if not isinstance(amount, kinds) or isinstance(amount, bool):
        return False
    return (isinstance(amount, int) or math.isfinite(amount)) and 0 <= amount <= _MOST
