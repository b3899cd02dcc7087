"""The functions of the rules: they find amounts, recipients and references under the usual names, at any depth."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from guardagent.packs import MAX_DEPTH, leaves, letters, with_json

_CENTS = r"(amount|amt|value|total)?(in)?(cents|minor|minorunits)"
_AMOUNT = re.compile(rf".*(amount|amt|total)|value|sum|price|{_CENTS}")
_SUM = re.compile(rf".*total(amount|{_CENTS})?")  # what stands beside it is in it
_EXTRA = re.compile(rf"(tip|gratuity|fee|surcharge|tax|vat|shipping|bonus|donation|extra)s?{_CENTS}?(amount|amt)?")
_TIMES = re.compile(r"quantity|qty|units|copies|numberof(units|items|copies)")  # of what is paid for
_REPEATS = re.compile(  # of a whole payment
    r"repeat(s|ed|count|times)?|repetitions?|times|occurrences?|(number|num|no)?(of)?(payments|installments|instalments|cycles)"
    r"|(recurring)?count|recurring|recurrence|frequency|multiplier|(fx|exchange|conversion)rate|(max)?retries"
)
_ONCE = frozenset("once one single none no false never onetime null".split())
_ENDLESS = Fraction(10**9)  # such as 'monthly'
_RECIPIENT = re.compile(
    r"to|iban|address|account|accountno|accountnumber|wallet|email|phone|contact|user|username|person|name"
    r"|(to|target)(account|iban|user|address|wallet|email|name|id|number).*"
    r"|(recipient|payee|beneficiary|receiver|creditor|vendor|supplier|merchant|destination|dest|employee).*"
)
_REFERENCE = re.compile(
    r"id|reference|ref|(order|invoice|payment|charge|transaction|bill|booking|reservation|purchase|subscription|payout"
    r"|customer|case|return|claim|item|paymentintent)(id|ids|no|nr|number|ref|reference)?"
)
_CURRENCY = re.compile(r".*currency(code)?|asset|coin|token")
_DIGITS = r"[0-9]{1,18}(?:\.[0-9]{1,18})?|[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]{1,18}"  # '1,234' alone is ambiguous
_NUMBER = re.compile(rf"([^\d\s.,+-]{{0,5}})\s*({_DIGITS})\s*([^\d\s.,+-]{{0,5}})")
_SIGNS = {"$": "USD", "US$": "USD", "€": "EUR", "£": "GBP"}


def amounts(arguments: dict[str, Any]) -> list[Fraction | None]:
    """The amounts in a call; null for one that is not a number."""
    return [_number(key, value) for key, value in leaves(arguments) if _is_amount(key)]


def total(arguments: dict[str, Any]) -> Fraction | None:
    """The amount of a whole call: the largest of amounts side by side, the sum over a list. None without one.

    Tips and fees are added. Quantities, repetitions and rates multiply it; a repetition
    without an end counts a billion times.
    """
    return _total(arguments)


def currencies_in(arguments: dict[str, Any]) -> list[str]:
    """The currencies in a call, in upper case, also those that stand beside an amount."""
    values = list(leaves(arguments))
    named = [str(value).strip().upper() for key, value in values if _CURRENCY.fullmatch(key)]
    texts = [value.strip() for key, value in values if _AMOUNT.fullmatch(key) and isinstance(value, str)]
    signs = [sign for text in texts if (match := _NUMBER.fullmatch(text)) for sign in match.group(1, 3) if sign]
    return [*named, *(_SIGNS.get(sign, sign.upper()) for sign in signs)]


def recipients(arguments: dict[str, Any]) -> list[str]:
    """The recipients in a call, in lower case and without spaces."""
    return sorted({_plain(value) for key, value in leaves(arguments) if _RECIPIENT.fullmatch(key)} - {""})


def strangers(arguments: dict[str, Any], payees: list[Any]) -> list[str]:
    """The recipients in a call that are not in a list of known ones."""
    known = {_plain(payee) for payee in payees}
    return [recipient for recipient in recipients(arguments) if recipient not in known]


def payee(arguments: dict[str, Any]) -> str | None:
    """The recipients of a call; without one, its references, such as the order of a refund. None without both."""
    return " ".join(recipients(arguments) or _references(arguments)) or None


def payment(arguments: dict[str, Any]) -> str | None:
    """The recipients, references and amount of a call: equal for the same payment. None if they are missing."""
    amount, parties = total(arguments), [*recipients(arguments), *_references(arguments)]
    return " ".join([*parties, str(amount)]) if parties and amount is not None else None


def _references(arguments: dict[str, Any]) -> list[str]:
    return sorted({_plain(value) for key, value in leaves(arguments) if _REFERENCE.fullmatch(key)} - {""})


def _total(value: Any, key: str = "", depth: int = 0) -> Fraction | None:
    value = with_json(value)
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, list):
        return _sum(_total(entry, key, depth + 1) for entry in value)
    if not isinstance(value, dict):
        return _number(key, value) if _is_amount(key) else None
    parts = {letters(name): _total(entry, letters(name), depth + 1) for name, entry in value.items()}
    own = {name: part for name, part in parts.items() if part is not None and _is_amount(name)}
    sums = [part for name, part in own.items() if _SUM.fullmatch(name)]
    nested = _sum(part for name, part in parts.items() if name not in own)
    base = max([part for part in own.values() if part not in sums] + ([] if nested is None else [nested]), default=None)
    if base is not None:
        extras = [_number(letters(name), entry) for name, entry in value.items() if _is_extra(letters(name), entry)]
        if None in extras:
            return None
        base = base * _factor(value, _TIMES) + sum((max(extra, Fraction(0)) for extra in extras if extra), Fraction(0))
    whole = max([*sums, *([] if base is None else [base])], default=None)
    return None if whole is None else whole * _factor(value, _REPEATS)


def _is_amount(key: str) -> bool:
    return bool(_AMOUNT.fullmatch(key)) and not _EXTRA.fullmatch(key)


def _is_extra(key: str, value: Any) -> bool:
    return bool(_EXTRA.fullmatch(key)) and not isinstance(value, bool | dict | list) and value not in (None, "")


def _factor(value: dict[str, Any], names: re.Pattern[str]) -> Fraction:
    """The number of times that an amount counts, at least one."""
    factor = Fraction(1)
    for name, entry in value.items():
        if names.fullmatch(letters(name)) and entry not in (None, "", False) and _plain(entry) not in _ONCE:
            factor *= max(_number("", entry) or _ENDLESS, Fraction(1))
    return factor


def _sum(parts: Iterable[Fraction | None]) -> Fraction | None:
    amounts = [part for part in parts if part is not None]
    return sum(amounts, Fraction(0)) if amounts else None


def _number(key: str, value: Any) -> Fraction | None:
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value.strip())
        number = Fraction(match[2].replace(",", "")) if match else None
    elif isinstance(value, int | float | Fraction) and not isinstance(value, bool) and value - value == 0:
        number = Fraction(str(value))
    else:
        number = None
    return number / 100 if number is not None and re.fullmatch(_CENTS, key) else number


def _plain(value: Any) -> str:
    return re.sub(r"\s", "", str(value)).casefold() if isinstance(value, str | int | float) else ""
