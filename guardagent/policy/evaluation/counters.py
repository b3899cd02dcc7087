"""Counters across conversations: which calls they count, with which key, and by what amount."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from guardagent.policy.evaluation.history_query import Env, Term
from guardagent.policy.language.values import Truth, Unknown, exact, kind_name, kind_of, mismatch
from guardagent.policy.provenance.spelling import appearance

Number = int | Fraction

MAX_KEY = 200  # characters of a stored key; a longer one is stored as its hash
MAX_AMOUNT = 10**30
DECIMALS = 10**18  # an amount is a whole number of this fraction


@dataclass(frozen=True, slots=True)
class CounterKey:
    """A count of its own: a counter with the values of its keys.

    Attributes:
        counter: the name of the counter, and a digest of its definition.
        key: the values of its keys.
        window: the length of the window in seconds; None counts for ever.
    """

    counter: str
    key: str
    window: float | None


@dataclass(frozen=True, slots=True)
class CountedAmount:
    """The amount by which a call raises a counter."""

    key: CounterKey
    amount: Number


class CounterReader(Protocol):
    """The current values of counters, for the rules of one session."""

    def refresh(self) -> None:
        """Discards the values that were read before."""

    def named(self, name: str, keys: Sequence[Any]) -> Number | Unknown:
        """Returns the present value of the counter with this name for the values of its keys, outside of a check."""

    def value(self, key: CounterKey) -> Number | Unknown:
        """Returns the value of a counter; unknown, with bounds, while counted calls are in flight."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A compiled counter.

    Attributes:
        name: its name in rules.
        tools: the tools of its pattern.
        scope: the name with a digest of the definition: policies with the same definition share the counts of a store.
        window: the length of the window in seconds; None counts for ever.
        size: the size of the environment.
        match: binds a proposed call, and returns whether the pattern matches it.
        keys: the terms of the keys.
        amount: the term of the amount; None counts calls.
        is_usage: whether the amount is the usage of the conversation so far, which counts once.
        reads_zone: whether a key or the amount depends on the zone of the session's clock.
    """

    name: str
    tools: frozenset[str]
    scope: str
    window: float | None
    size: int
    match: Callable[[Env, Any], Truth]
    keys: tuple[Term, ...]
    amount: Term | None
    is_usage: bool = False
    reads_zone: bool = False

    def key_of(self, values: Sequence[Any]) -> CounterKey | Unknown:
        """Returns the key for some values; unknown if one is unknown, or cannot be a key."""
        texts: list[str] = []
        for value in values:
            text = _key_text(value)
            if isinstance(text, Unknown):
                return text
            texts.append(text)
        joined = _joined_once if sum(map(len, texts)) <= MAX_KEY else _joined
        return CounterKey(self.scope, joined(tuple(texts)), self.window)

    def counted(self, context: Any, call: Any, earlier: Sequence[Any]) -> CountedAmount | Unknown | None:
        """Returns the amount of a call, after the `earlier` ones; None if the counter does not count it."""
        env: Env = [context, *[None] * (self.size - 1)]
        matched = self.match(env, call)
        if matched is False:
            return None
        if type(matched) is Unknown:
            return matched
        key = self.key_of([term(env) for term in self.keys])
        amount: Number | Unknown = 1 if self.amount is None else counted_number(self.amount(env))
        if isinstance(key, Unknown):
            return key
        if isinstance(amount, Unknown):
            return amount
        if self.is_usage:
            amount = max(0, amount - sum(map(self._usage_of, earlier)))
            call.spent = {**(call.spent or {}), self.scope: str(amount)}
        return CountedAmount(key, amount)

    def _usage_of(self, call: Any) -> Number:
        """The usage that an earlier call counts."""
        counts = call.spent is not None and call.status not in ("failed", "withdrawn")
        return Fraction(call.spent.get(self.scope, 0)) if counts else 0


def counted_number(value: Any) -> Number | Unknown:
    """Returns an amount that a counter can add; unknown for anything but a decimal number from 0."""
    if kind_of(value) != "number":
        return mismatch(value, 0) if kind_of(value) is None else Unknown(f"the amount is a {kind_name(value)}")
    number = exact(value)
    if isinstance(number, Unknown):
        return number
    if number < 0:
        return Unknown("the amount is negative, and a counter never falls")
    if number > MAX_AMOUNT:
        return Unknown("the amount has more than 30 digits")
    if DECIMALS % Fraction(number).denominator:
        return Unknown("the amount has no end as a decimal, or more than 18 digits after the point")
    return number


def _joined(texts: tuple[str, ...]) -> str:
    whole = json.dumps([_number_form(appearance(text)) for text in texts])
    return whole if len(whole) <= MAX_KEY else hashlib.sha256(whole.encode()).hexdigest()


_joined_once = lru_cache(1024)(_joined)


_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+(?:_\d+)*(?:\.(?:\d+(?:_\d+)*)?)?|\.\d+(?:_\d+)*)(?:e[+-]?\d+(?:_\d+)*)?|inf(?:inity)?|nan)",
    re.ASCII,
)
_MOST_ZEROS = 100  # of a number that is written without an exponent


def _number_form(text: str) -> str:
    """One form for all strings that `int` or `float` read as one number; other strings stay as they are."""
    if not _NUMBER.fullmatch(text):
        return text
    try:
        number = Decimal(text.replace("_", ""))
    except InvalidOperation:  # of an exponent with many digits
        return text
    if not number.is_finite():
        return str(number)
    sign, parts, exponent = number.as_tuple()
    digits = "".join(map(str, parts)).strip("0")
    exponent = number.adjusted() + 1 - len(digits)
    form = f"{'-' * sign}{digits}e{exponent}" if digits else "0"
    return form if abs(exponent) > _MOST_ZEROS else f"{Decimal(form):f}"


def _key_text(value: Any) -> str | Unknown:
    """Returns a key as a string. `_joined` makes spellings that look alike, or are one number, one key.

    A number and its digits are one key, too: a tool may accept either.
    """
    kind = kind_of(value)
    if kind == "text":
        return str(value)
    if kind == "truth value":
        return "true" if value else "false"
    if kind == "number":
        number = exact(value)
        return number if isinstance(number, Unknown) else _digits(number)
    if kind is None:
        return mismatch(value, "")
    return Unknown(f"a {kind_name(value)} cannot be the key of a counter; expected a string, a number or a boolean")


def _digits(number: Number) -> str | Unknown:
    """The number as a tool would write it: a decimal without an exponent, if it has one."""
    if number.denominator != 1 and DECIMALS % number.denominator:
        return str(number)
    size = abs(Fraction(number))
    if size >= MAX_AMOUNT:
        return Unknown("a number with more than 30 digits cannot be the key of a counter; expected a string")
    whole, decimals = divmod(int(size * DECIMALS), DECIMALS)
    text = f"{whole}.{decimals:018}".rstrip("0").rstrip(".")
    return f"-{text}" if number < 0 else text
