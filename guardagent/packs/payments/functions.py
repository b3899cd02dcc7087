"""The functions of the rules: they find amounts, recipients and references under the usual names, at any depth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

_CENTS = r"(amount|amt|value|total)?(in)?(cents|minor|minorunits)"
_AMOUNT = re.compile(rf".*(amount|amt|total)|value|sum|price|{_CENTS}")
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
_MAX_DEPTH = 20


def amounts(arguments: dict[str, Any]) -> list[Fraction | None]:
    """The amounts in a call; null for one that is not a number."""
    return [_number(key, value) for key, value in _leaves(arguments) if _AMOUNT.fullmatch(key)]


def total(arguments: dict[str, Any]) -> Fraction | None:
    """The amount of a whole call: the largest of amounts side by side, the sum over a list. None without one."""
    return _total(arguments)


def currencies_in(arguments: dict[str, Any]) -> list[str]:
    """The currencies in a call, in upper case, also those that stand beside an amount."""
    leaves = list(_leaves(arguments))
    named = [str(value).strip().upper() for key, value in leaves if _CURRENCY.fullmatch(key)]
    texts = [value.strip() for key, value in leaves if _AMOUNT.fullmatch(key) and isinstance(value, str)]
    signs = [sign for text in texts if (match := _NUMBER.fullmatch(text)) for sign in match.group(1, 3) if sign]
    return [*named, *(_SIGNS.get(sign, sign.upper()) for sign in signs)]


def recipients(arguments: dict[str, Any]) -> list[str]:
    """The recipients in a call, in lower case and without spaces."""
    return sorted({_plain(value) for key, value in _leaves(arguments) if _RECIPIENT.fullmatch(key)} - {""})


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
    return sorted({_plain(value) for key, value in _leaves(arguments) if _REFERENCE.fullmatch(key)} - {""})


def _total(value: Any, key: str = "", depth: int = 0) -> Fraction | None:
    value = _parsed(value)
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, list):
        return _sum(_total(entry, key, depth + 1) for entry in value)
    if not isinstance(value, dict):
        return _number(key, value) if _AMOUNT.fullmatch(key) else None
    parts = {name: _total(entry, _key(name), depth + 1) for name, entry in value.items()}
    own = [part for name, part in parts.items() if part is not None and _AMOUNT.fullmatch(_key(name))]
    nested = _sum(part for name, part in parts.items() if not _AMOUNT.fullmatch(_key(name)))
    return max([*own, *([] if nested is None else [nested])], default=None)


def _sum(parts: Iterable[Fraction | None]) -> Fraction | None:
    amounts = [part for part in parts if part is not None]
    return sum(amounts, Fraction(0)) if amounts else None


def _leaves(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """The values that are neither lists nor mappings, with the plain form of their keys; JSON content is read."""
    value = _parsed(value)
    if depth <= _MAX_DEPTH and isinstance(value, dict):
        for name, part in value.items():
            yield from _leaves(part, _key(name), depth + 1)
    elif depth <= _MAX_DEPTH and isinstance(value, list):
        for part in value:
            yield from _leaves(part, key, depth + 1)
    else:
        yield key, value


def _key(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _parsed(value: Any) -> Any:
    if not (isinstance(value, str) and value.lstrip()[:1] in ("{", "[")):
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return parsed if isinstance(parsed, dict | list) else value


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
