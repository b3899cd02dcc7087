"""The functions of the rules: readings of a value, assignments, card numbers, and the disorder of a string."""

from __future__ import annotations

import binascii
import marshal
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import islice, repeat
from typing import Any
from urllib.parse import unquote

from guardagent._support.syntax import compile_pattern
from guardagent.packs import with_json

_MAX_CHARACTERS = 2_000_000
_ASCII = bytes(range(128))
_DEPTH = 3  # of encodings in encodings, and of JSON in strings


def readings(value: Any) -> list[str] | None:
    """The strings in a value at any depth, and what they encode: JSON, percent-encoding, base64, hex. None if too long.

    The strings of a mapping stand with their keys, as in 'key: value'. Short strings stand together, with a line
    between them that no pattern of the rules crosses.
    """
    if isinstance(value, dict) and all(type(part) is str for part in value.values()):
        return _readings_of(tuple(value.items()))
    try:
        return _readings_of(value if type(value) is str else marshal.dumps(value, 2))  # which tells 1 from true
    except ValueError:  # such as a decimal number
        return _readings(value)


@lru_cache(4)  # each rule reads the same arguments
def _readings_of(key: str | bytes | tuple[tuple[str, str], ...]) -> list[str] | None:
    if isinstance(key, bytes):
        return _readings(marshal.loads(key))  # noqa: S302 - from `readings`
    return _readings(key if isinstance(key, str) else dict(key))


def _readings(value: Any) -> list[str] | None:
    texts: list[str] = []
    _collect(value, "", 0, texts)
    if sum(map(len, texts)) > _MAX_CHARACTERS:
        return None
    level = list(_joined(dict.fromkeys(texts)))
    readings = dict.fromkeys(level)
    for _ in range(_DEPTH):
        plain = [unquote(text) for text in level if "%" in text]
        level = [text for text in (*plain, *_joined(_decoded(level))) if text not in readings]
        readings.update(dict.fromkeys(level))
    return list(readings)


def _collect(value: Any, key: str, depth: int, texts: list[str]) -> None:
    """Adds the strings of a value."""
    if isinstance(value, dict | list):
        if isinstance(value, dict) and isinstance(content := value.get("value"), str):
            name = value.get("name", value.get("key"))
            texts += [f"{name}: {content}"] if isinstance(name, str) else []
        for own, part in value.items() if isinstance(value, dict) else zip(repeat(key), value):
            if type(part) is int or (type(part) is str and part[:1].isalnum() and part.isascii()):
                texts.append(f"{own}: {part}" if own else str(part))  # as below, at once for most strings
            else:
                _collect(part, str(own), depth, texts)
    elif value is not None:
        text = _visible(str(value))
        texts.append(f"{key}: {text}" if key else text)
        if depth < _DEPTH and isinstance(parsed := with_json(text), dict | list):
            _collect(parsed, key, depth + 1, texts)


def _visible(text: str) -> str:
    """The string without invisible characters."""
    if not text.isascii():
        others = text.encode("utf-8", "surrogatepass").translate(None, _ASCII).decode("utf-8", "surrogatepass")
        for sign in {sign for sign in set(others) if unicodedata.category(sign) == "Cf"}:
            text = text.replace(sign, "")
    return text


# --- short strings, joined: for thousands of them, a search takes as long as for a long one

_SHORT, _BLOCK = 500, 2_900  # characters: so a block has less than the 1,000 matches that `find` accepts
_APART = "\n\0\n"


def _joined(texts: Iterable[str]) -> Iterator[str]:
    """The long strings, and blocks of the short ones."""
    short: list[str] = []
    for text in texts:
        if len(text) > _SHORT:
            yield text
        else:
            short.append(text)
    whole = _APART.join(short)
    if not _is_valid(whole):  # then a search of one string has no result, and those of others have
        yield from short
        return
    start = 0
    while start < len(whole):
        rest = len(whole) - start
        end = len(whole) if rest <= _BLOCK else whole.rindex(_APART, start, start + _BLOCK)
        yield whole[start:end]
        start = end + len(_APART)


def _is_valid(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


# --- base64 and hex

_SHORTEST = 16  # characters of base64
_SIGNS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_="
_WORDS = bytes(code if code in _SIGNS else 32 for code in range(256))
_URL_SIGNS = bytes.maketrans(b"-_", b"+/")
_HEX = r"(?:[0-9a-fA-F]{2}){12,}"
_READABLE = re.compile("\0([^\0-\x08\x0e-\x1b\x7f\ud800-\udfff]+)(?=\0)")


def _decoded(texts: Iterable[str]) -> list[str]:
    """The printable strings that base64 and hex in strings encode."""
    content = b"\n".join(text.encode("ascii", "replace") for text in texts)
    decoded = [bytes.fromhex(match[0].decode()) for match in _compiled(_HEX).finditer(content)]
    words = _base64(content)
    decoded += [
        binascii.a2b_base64(word + b"==") for word in words if len(word) % 4 != 1
    ]  # no bytes have such a length
    whole = b"\0".join([part for part in decoded if b"\0" not in part]).decode("utf-8", "surrogateescape")
    return sorted({text for text in _READABLE.findall(f"\0{whole}\0") if "".join(text.split()).isprintable()})


def _base64(content: bytes) -> set[bytes]:
    """The runs of at least 16 signs of base64, and such parts of them between slashes, that may encode a string."""
    content = content.translate(_WORDS).replace(b"==", b"~ ").replace(b"=", b"! ")  # what ends a word is counted, too
    runs, starts = [run for run in content.split() if len(run) >= _SHORTEST], _starts()
    parts = [part for run in runs if b"/" in run for part in run.split(b"/") if part[:2] in starts]
    words = {run for run in runs if run[:2] in starts and len(run.rstrip(b"~!")) >= _SHORTEST}
    words |= {part for part in parts if len(part) + part.endswith(b"~") >= _SHORTEST}
    return {word.translate(_URL_SIGNS, b"~!") for word in words}


@cache
def _starts() -> frozenset[bytes]:
    """The first two signs of the base64 of printable strings: the first byte, and half of the second one."""
    sextets = [*enumerate(_SIGNS[:64]), (62, _SIGNS[64]), (63, _SIGNS[65])]
    return frozenset(
        bytes((sign, next_sign))
        for first, sign in sextets
        for second, next_sign in sextets
        if _starts_text(first << 2 | second >> 4, second & 15)
    )


def _starts_text(byte: int, half: int) -> bool:
    if byte >= 0xC2:  # of a character that is not ASCII
        return 8 <= half < 12
    return not 8 <= half < 12 and (32 <= byte < 127 or (byte < 32 and chr(byte).isspace()))


@cache
def _compiled(pattern: str) -> Any:
    return compile_pattern(pattern)


# --- assignments

_ASSIGNMENT = re.compile(
    r"""(?<![\w.-])(?P<name>[A-Za-z_][\w.-]{0,60})["'`]?\s{0,3}(?:[:=]|:=|=>)\s{0,3}["'`]?(?=(?P<value>[^\s"'`,;&]{1,500}))"""
    r"""|--(?P<option>[a-z][\w-]{0,60})[ =]["']?(?=(?P<of_option>[^\s"']{1,500}))"""
    r"""|\b(?:password|passphrase|passwd|sshpass\s+-p)\s+(?:(?:is|was)\s+)?["'`]?(?=(?P<spoken>[^\s"'`,;&]{1,500}))"""
    r"""|\s-(?:u|-user)[ =]?["']?[^\s:"']{1,60}:(?=(?P<of_user>[^\s"'@/]{1,500}))"""
)
_NAMES = (  # the names that the rules look for contain one of these
    "pass", "pwd", "secret", "token", "credential", "apikey", "accesskey", "privatekey", "authkey", "accountkey",
    "encryptionkey", "signingkey", "masterkey",
)  # fmt: skip
_SECRET = re.compile("|".join(_NAMES))
# Where a match of `_ASSIGNMENT` is not in another one: at a sign that none contains, except for a user name.
_BREAK = re.compile(r"""[^\w\s.\-"'`:=>]|(?<=[^\s:=>dsep])\n(?!\s*[:=])""")
_LONGEST_USER = 70  # characters of '-u user:'
_DENSE = 150  # characters for each candidate: with more candidates, all is searched


def assignments(text: str) -> list[dict[str, str]]:
    """The assignments to names of secrets: 'name=value', '--name value', '-u user:value'.

    'password is value' counts, too. A name has its letters only, in lower case.
    """
    assignments = []
    for start, end in _regions(text):
        for match in _ASSIGNMENT.finditer(text, start, end + 1):  # with a sign of the last value
            name = re.sub(r"[^a-z]", "", (match["name"] or match["option"] or "password").lower())
            if _SECRET.search(name) and (whole := _ASSIGNMENT.match(text, match.start())):
                assignments.append({"name": name, "value": whole[whole.lastgroup or 0]})
    return assignments


@cache
def _candidate() -> Any:
    """The expression, for a linear-time engine, of what each assignment to a name of a secret contains.

    '?' stands for a character that is not ASCII. Some of these are k or i in lower case.
    """
    within, space = r"[0-9_.\-?]*", r"[\s\v\x1c-\x1f?]"
    words = (within.join(f"[{sign}?]" if sign in "ik" else sign for sign in name) for name in _NAMES)
    name = rf"(?i:{'|'.join(words)})[\w.\-?]*"
    patterns = (
        rf"""{name}["'`]?{space}{{0,3}}[:=]""",
        rf"--[\w\-?]*{name}[ =]",
        rf"(?:password|passphrase|passwd|sshpass{space}+-p){space}",
        rf"""{space}-(?:u|-user)[ =]?["']?[^\s:"']+:""",
    )
    return compile_pattern("|".join(patterns))


def _regions(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a string with candidates, such that `_ASSIGNMENT` matches in them as it does in the whole."""
    most = len(text) // _DENSE + 5
    candidates = list(islice(_candidate().finditer(text.encode("ascii", "replace")), most))
    if len(candidates) == most:
        yield 0, len(text)
        return
    end = 0
    for match in candidates:
        if match.start() >= end:
            start = _break_before(text, match.start(), end)
            end = next(_breaks(text, match.end(), len(text)), len(text))
            yield start, end


def _break_before(text: str, at: int, least: int) -> int:
    """The last break before a position; the least position if there is none."""
    size = 64
    while at - size > least:
        if breaks := list(_breaks(text, at - size, at)):
            return breaks[-1]
        size *= 4
    return ([least, *_breaks(text, least, at)])[-1]


def _breaks(text: str, start: int, end: int) -> Iterator[int]:
    places = (match.start() for match in _BREAK.finditer(text, start, end))
    return (at for at in places if "-u" not in text[max(0, at - _LONGEST_USER) : at])


# --- card numbers, and disorder

_CARD = re.compile(
    r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{1,7}(?![\w-])|(?<![\w.-])3[47]\d\d[ -]?\d{6}[ -]?\d{5}(?![\w-])"
)
_LIKE_CARD = r"[2-6]\pN{3}(?:[ -]?\pN{4}){2}[ -]?\pN|3[47]\pN{2}[ -]?\pN{6}[ -]?\pN{5}"
_BRANDS = re.compile(r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|6(?:011|4[4-9]\d|5\d\d)\d{12}")


def card_numbers(text: str) -> list[str]:
    """The card numbers in a string: digits of a known brand with a right check digit."""
    if _compiled(_LIKE_CARD).search(text.encode("utf-8", "replace")) is None:
        return []
    numbers = [re.sub(r"\D", "", match[0]) for match in _CARD.finditer(text)]
    return [number for number in numbers if _BRANDS.fullmatch(number) and _has_check_digit(number)]


def _has_check_digit(number: str) -> bool:
    doubled = [int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(number))]
    return sum(digit - 9 if digit > 9 else digit for digit in doubled) % 10 == 0


def disorder(text: str) -> float:
    """The entropy of the characters of a string, in bits for each."""
    return sum(-count / len(text) * math.log2(count / len(text)) for count in Counter(text).values())
