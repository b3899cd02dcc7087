"""Formats values for messages: JSON, with exact numbers in decimal notation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from json.encoder import encode_basestring
from typing import Any

MAX_DIGITS = 400  # of a decimal, before or after its point


def format_value(value: Any, limit: int = 60) -> str:
    """Returns a value as readable text of at most `limit` characters."""
    if type(value) is str:  # the common case
        text = encode_basestring(value)
    elif isinstance(value, Fraction):
        return _format_fraction(value)
    elif isinstance(value, Decimal):
        return str(value)
    else:
        text = _format_json(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _format_json(value: Any) -> str:
    try:
        return str(value) if type(value) is int else json.dumps(value, ensure_ascii=False, default=_simplified)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"


def _format_fraction(value: Fraction) -> str:
    try:
        return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"
    except (OverflowError, ValueError):
        return f"a number of more than {MAX_DIGITS} digits"


def _simplified(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return format_value(value) if isinstance(value, Fraction | Decimal) else str(value)
