"""The functions of the rules: readings of a value, assignments, card numbers, and the disorder of a string."""

from __future__ import annotations

import binascii
import json
import math
import re
import unicodedata
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

_MAX_CHARACTERS = 2_000_000
_DEPTH = 3  # of encodings in encodings, and of JSON in strings
_SHORTEST = 16  # characters of base64
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{16,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){12,}")
_ASSIGNMENT = re.compile(
    r"""(?<![\w.-])(?P<name>[A-Za-z_][\w.-]{0,60})["'`]?\s{0,3}(?:[:=]|:=|=>)\s{0,3}["'`]?(?=(?P<value>[^\s"'`,;&]{1,500}))"""
    r"""|--(?P<option>[a-z][\w-]{0,60})[ =]["']?(?=(?P<of_option>[^\s"']{1,500}))"""
    r"""|\b(?:password|passphrase|passwd|sshpass\s+-p)\s+(?:(?:is|was)\s+)?["'`]?(?=(?P<spoken>[^\s"'`,;&]{1,500}))"""
    r"""|\s-(?:u|-user)[ =]?["']?[^\s:"']{1,60}:(?P<of_user>[^\s"'@/]{1,500})"""
)
_SECRET = re.compile(r"pass|pwd|secret|token|key|credential")
_CARD = re.compile(
    r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{1,7}(?![\w-])|(?<![\w.-])3[47]\d\d[ -]?\d{6}[ -]?\d{5}(?![\w-])"
)
_BRANDS = re.compile(r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|6(?:011|4[4-9]\d|5\d\d)\d{12}")


def readings(value: Any) -> list[str] | None:
    """The strings in a value at any depth, and what they encode: JSON, percent-encoding, base64, hex. None if too long.

    The strings of a mapping stand with their keys, as in 'key: value'.
    """
    readings: dict[str, None] = {}
    size = 0
    for text in _texts(value, "", 0):
        size += len(text)
        if size > _MAX_CHARACTERS:
            return None
        readings.update(dict.fromkeys(_decoded(text, 0)))
    return list(readings)


def assignments(text: str) -> list[dict[str, str]]:
    """The assignments to names of secrets: 'name=value', '--name value', '-u user:value'.

    'password is value' counts, too. A name has its letters only, in lower case.
    """
    assignments = []
    for match in _ASSIGNMENT.finditer(text):
        name = re.sub(r"[^a-z]", "", (match["name"] or match["option"] or "password").lower())
        if _SECRET.search(name):
            assignments.append({"name": name, "value": match[match.lastgroup or 0]})
    return assignments


def disorder(text: str) -> float:
    """The entropy of the characters of a string, in bits for each."""
    return sum(-count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())


def card_numbers(text: str) -> list[str]:
    """The card numbers in a string: digits of a known brand with a right check digit."""
    numbers = [re.sub(r"\D", "", match[0]) for match in _CARD.finditer(text)]
    return [number for number in numbers if _BRANDS.fullmatch(number) and _has_check_digit(number)]


def _has_check_digit(number: str) -> bool:
    doubled = [int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(number))]
    return sum(digit - 9 if digit > 9 else digit for digit in doubled) % 10 == 0


def _texts(value: Any, key: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict):
        name, content = value.get("name", value.get("key")), value.get("value")
        if isinstance(name, str) and isinstance(content, str):
            yield f"{name}: {content}"
        for own, part in value.items():
            yield from _texts(part, str(own), depth)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, key, depth)
    elif value is not None:
        text = "".join(sign for sign in str(value) if unicodedata.category(sign) != "Cf")
        yield f"{key}: {text}" if key else text
        if depth < _DEPTH and isinstance(parsed := _parsed(text), dict | list):
            yield from _texts(parsed, key, depth + 1)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def _decoded(text: str, depth: int) -> Iterator[str]:
    yield text
    if depth == _DEPTH:
        return
    plain = unquote(text)
    inner = [plain] if plain != text else []
    words = {word for match in _BASE64.findall(text) for word in (match, *match.split("/")) if len(word) >= _SHORTEST}
    inner += [printable for word in sorted(words) if (printable := _of_base64(word))]
    inner += [printable for match in _HEX.finditer(text) if (printable := _printable(bytes.fromhex(match[0])))]
    for inner_text in inner:
        yield from _decoded(inner_text, depth + 1)


def _of_base64(word: str) -> str:
    plain = word.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _printable(b64decode(plain + "=" * (-len(plain) % 4)))
    except (binascii.Error, ValueError):
        return ""


def _printable(content: bytes) -> str:
    """The text of bytes that are one; empty for others."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return ""
    return text if all(sign.isprintable() or sign.isspace() for sign in text) else ""
