"""The numbers in a request: digits with separators, and number words up to the thousands."""

from __future__ import annotations

import re

_DIGITS = re.compile(r"(?<![\w.,])(?:\d{1,3}(?:[,_]\d{3})+|\d{1,12})(?:\.\d{1,6})?(?!\w)")
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = {word: number for number, word in enumerate(_SMALL)} | {word: 10 * at for at, word in enumerate(_TENS, 2)}
_TIMES = {"hundred": 100, "thousand": 1000}
_SPELLED = re.compile(
    rf"\b({'|'.join(_WORDS)})(?:[\s-]+({'|'.join(_SMALL[1:10])}))?(?:[\s-]+({'|'.join(_TIMES)}))?\b", re.IGNORECASE
)


def limits_of(request: str) -> list[int | float]:
    """The numbers of a request, each once, in their order."""
    found = [(match.start(), _number(match[0])) for match in _DIGITS.finditer(request)]
    found += [(match.start(), _spelled(match)) for match in _SPELLED.finditer(request)]
    return list(dict.fromkeys(number for _, number in sorted(found)))


def _number(text: str) -> int | float:
    digits = text.replace(",", "").replace("_", "")
    return float(digits) if "." in digits else int(digits)


def _spelled(match: re.Match[str]) -> int:
    first, unit, times = (one.lower() if one else "" for one in match.groups())
    return (_WORDS[first] + _WORDS.get(unit, 0)) * _TIMES.get(times, 1)
