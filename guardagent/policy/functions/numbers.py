"""`number(text)`: the exact number that a whole string states.

    [space] [+ or -] digits [. digits] [space]          12   -0.50   +7
    [space] [+ or -] groups [. digits] [space]          1,234,567   1,234.50   -12,345.00

Groups are one to three digits, then commas with exactly three digits each. A single comma without decimals
('1,234') is ambiguous: with a decimal comma it states another number. Such a string, and every other one, is unknown.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from guardagent.policy.functions import RuleFunction
from guardagent.policy.language.values import Unknown, exact
from guardagent.types.formatting import MAX_DIGITS

_PLAIN = r"[0-9]+(?:\.[0-9]+)?"
_GROUPED = r"[0-9]{1,3}(?:(?:,[0-9]{3})+\.[0-9]+|(?:,[0-9]{3}){2,})"
_NUMBER = re.compile(rf"[+-]?(?:{_PLAIN}|{_GROUPED})")
_AMBIGUOUS = re.compile(r"[+-]?[0-9]{1,3},[0-9]{3}")


def _number(text: str) -> Any:
    stated = text.strip(" \t\r\n")
    if len(stated) > MAX_DIGITS:
        return Unknown("a string is too long for a number")
    if _AMBIGUOUS.fullmatch(stated):
        return Unknown("a number is ambiguous: its comma can group digits or separate decimals")
    if not _NUMBER.fullmatch(stated):
        return Unknown("a string is not a number; expected digits such as '1234.50' or '1,234.50'")
    return exact(Decimal(stated.replace(",", "")))


FUNCTION = RuleFunction(_number, (("text",),), result="number")
