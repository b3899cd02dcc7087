"""Pieces of sentences: names in code marks, numbers, durations and lists."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction

from guardagent.policy.language.rule_text import number_text

_UNITS = ((604800, 2, "week"), (86400, 2, "day"), (3600, 1, "hour"), (60, 1, "minute"), (1, 1, "second"))
_ORDINALS = ("", "", "second ", "third ", "fourth ", "fifth ")


def code(text: str) -> str:
    """A name or a formula in code marks. Different texts have different marks."""
    plain = text.isprintable() and not text.startswith('"')
    shown = text if plain else json.dumps(text, ensure_ascii=False)
    longest = max(map(len, re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}" if longest else f"{fence}{shown}{fence}"


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def duration(seconds: int | Fraction) -> str:
    """A number of seconds in the largest unit that fits: `24 hours`, `2 days`, `24 hours 1 second`."""
    for length, least, unit in _UNITS:
        count = Fraction(seconds) / length
        if count.denominator == 1 and abs(count) >= least:
            return _counted(str(count), unit)
    if not isinstance(seconds, int) or seconds < 60:
        return _counted(number_text(seconds), "second")
    minutes, rest = divmod(seconds, 60)
    parts = zip((minutes // 60, minutes % 60, rest), ("hour", "minute", "second"), strict=True)
    return " ".join(_counted(str(amount), unit) for amount, unit in parts if amount)


def _counted(amount: str, unit: str) -> str:
    return f"{amount} {unit}" if amount == "1" else f"{amount} {unit}s"


def last(length: str) -> str:
    """A time window: `the last hour`, `the last 24 hours`."""
    return f"in the last {length.removeprefix('1 ')}"


def ordinal(at: int) -> str:
    """The word for the n-th thing of a kind in the same place; nothing for the first."""
    return _ORDINALS[at] if at < len(_ORDINALS) else f"{at}th "


def either(parts: Sequence[str]) -> str:
    return " or ".join(parts)


def numbered(head: str, parts: Iterable[str]) -> str:
    """A list whose items are numbered: `all of these hold: (1) ...; (2) ...`."""
    return f"{head}: {'; '.join(f'({at}) {part}' for at, part in enumerate(parts, 1))}"


def sentence(text: str) -> str:
    """A text as a sentence: with a capital, unless it begins with a name, and a full stop."""
    return f"{text[:1].upper()}{text[1:]}."
