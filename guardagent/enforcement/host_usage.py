"""The usage of models in a conversation, as its host states it: the sum over their responses or runs."""

from __future__ import annotations

import math
import secrets
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

from guardagent.errors import InputError

Amount = int | float | Decimal


_USED = ("tokens", "cost")
_ALL = "all"  # the part of hosts whose reports are of all responses


@dataclass(slots=True)
class ModelUsage:
    """The usage of one conversation.

    Several processes can serve it in turn. Each states its own part, and the usage of the last call has those of all.

    Attributes:
        reports: the tokens and the cost of each response or run with a name; None if the host does not state them.
        others: the sum of those without a name.
        is_whole: whether the reports are of all responses, also of those before this process.
        process: the name of this process's part.
    """

    reports: dict[str, Mapping[str, Amount | None]] = field(default_factory=dict)
    others: dict[str, Amount | None] = field(default_factory=lambda: dict.fromkeys(_USED, 0))
    is_whole: bool = False
    process: str = field(default_factory=lambda: secrets.token_hex(8))
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)  # threads serve it at once

    def note(self, name: str | None, **used: Amount | None) -> None:
        """Notes a response or a run. A later report of the same name replaces the earlier one.

        Raises:
            InputError: an amount is not a number from 0, or the name no string; the usage is unknown from now on.
        """
        wrong = [what for what, amount in used.items() if not _is_amount(amount, whole=what == "tokens")]
        is_named = name is None or isinstance(name, str)
        with self._lock:
            if wrong or not is_named:
                self.others = dict.fromkeys(_USED)
            elif name is None:
                self.others = {what: _sum([self.others[what], used[what]]) for what in _USED}
            else:
                self.reports[name] = used
        if not is_named:
            raise InputError(f"the name of a response is a {type(name).__name__}; expected a string")
        if wrong:
            amount = used[wrong[0]]
            shown = "too large" if isinstance(amount, int) and amount > _MOST else f"{amount!r:.80}"
            raise InputError(f"{wrong[0]!r} of a response is {shown}; expected a number from 0, or None if unknown")

    def total(self, recorded: Mapping[str, Any] | None) -> dict[str, Any]:
        """Returns the tokens and the cost so far, None where a part of it is unknown, and the `parts` of processes.

        Args:
            recorded: the usage at the last call of the conversation; None without one.
        """
        parts = {} if recorded is None else {**recorded.get("parts", {"": recorded})}
        with self._lock:
            reports = [self.others, *self.reports.values()]
        own = {what: _sum([used[what] for used in reports]) for what in _USED}
        if self.is_whole:
            earlier = parts.get(_ALL, own)
            own = {
                what: None if None in (own[what], earlier[what]) else max(own[what], earlier[what]) for what in _USED
            }
        parts[_ALL if self.is_whole else self.process] = own
        return {**{what: _sum([part.get(what) for part in parts.values()]) for what in _USED}, "parts": parts}


def _sum(amounts: Sequence[Amount | None]) -> Amount | None:
    if None in amounts:
        return None
    used = sum((_exact(amount or 0) for amount in amounts), Fraction(0))
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
