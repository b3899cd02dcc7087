"""Data in an address that nobody can read: a way to send secrets with a plain request."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from urllib.parse import SplitResult, parse_qsl, unquote

MAX_QUERY = 500
MAX_VALUE = 150
_SECRET_NAMES = re.compile(
    r"(?:(?:access|auth|id|refresh|api|session|bearer|user|security)[_-]?)?token$|(?:x[_-])?(?:api|private|secret|access|auth|aws)[_-]?(?:secret[_-]?)?key$"
    r"|apikey$|pass(?:word|wd|phrase)?$|pwd$|(?:client[_-]?)?secret$|auth(?:orization)?$|credentials?$|session[_-]?id$|jwt$|ssn$"
    r"|(?:credit[_-]?)?card(?:[_-]?number)?$|cvv$|cookie$",
    re.IGNORECASE,
)
_SECRET_VALUES = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-[\w-]{16,}|sk_live_\w{8,}|AKIA[0-9A-Z]{12,}|ASIA[0-9A-Z]{12,}|gh[pousr]_\w{16,}|github_pat_\w{16,}"
    r"|glpat-[\w-]{12,}|xox[abprs]-[\w-]{8,}|AIza[\w-]{30,}|npm_\w{20,}|eyJ[\w-]{8,}\.[\w-]{8,}|hf_\w{20,}|ya29\.[\w-]{16,})"
    r"|-----BEGIN|PRIVATE KEY"
)
_ID = 12  # paths have longer ids, of documents for example
_HASH_LENGTHS = (32, 40, 64)


def has_secret(url: SplitResult) -> bool:
    """Whether an address has a password before its host, or a key or password in its query or fragment."""
    named = [*parse_qsl(url.query), *parse_qsl(url.fragment.rpartition("?")[2])]
    text = unquote(unquote(url.geturl()))
    return (
        "@" in url.netloc
        or any(value and _SECRET_NAMES.match(name) for name, value in named)
        or bool(_SECRET_VALUES.search(text))
    )


def is_opaque(url: SplitResult, longest: int) -> bool:
    """Whether an address carries data that nobody can read, or very much data."""
    values = [part for pair in parse_qsl(url.query, keep_blank_values=True) for part in pair] or [unquote(url.query)]
    return (
        len(url.query) > MAX_QUERY
        or any(len(value) > MAX_VALUE for value in values)
        or any(_is_encoded(one, longest) for one in (*values, *_segments(url.fragment)))
        or any(_is_encoded(one, longest + _ID) for one in _segments(url.path))
        or any(len(label) > 30 and re.search(r"\d", label) is not None for label in url.netloc.split("."))
        or any(_is_text(label) for label in url.netloc.split("."))
    )


def _segments(text: str) -> Iterator[str]:
    for segment in re.split(r"[/;,!]", unquote(text)):
        yield from re.split(r"\.(?=\w{1,5}$)", segment)


def _is_encoded(value: str, longest: int) -> bool:
    """Whether a value is one long token, or the encoded form of a text."""
    pieces = [len(one) for one in re.split(r"[-_.\s:+/=]", value) if _is_token(one)]
    is_single = re.fullmatch(r"[A-Za-z0-9+/=_~.-]+", value) is not None and len(value) > longest
    return max(pieces, default=0) > (20 if is_single else longest) or _is_text(value)


def _is_token(piece: str) -> bool:
    """Whether a piece is no word, and no hash such as that of a commit."""
    is_hash = len(piece) in _HASH_LENGTHS and re.fullmatch(r"[0-9a-fA-F]+", piece) is not None
    return not is_hash and re.search(r"\d|[a-z][A-Z]", piece) is not None


def _is_text(value: str) -> bool:
    """Whether a value decodes to at least ten printable characters."""
    plain = value.strip().replace("-", "+").replace("_", "/").rstrip("=")
    if len(plain) < 14:
        return False
    decoders: tuple[Callable[[], bytes], ...] = (
        lambda: base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True),
        lambda: bytes.fromhex(plain),
        lambda: base64.b32decode(plain.upper() + "=" * (-len(plain) % 8)),
    )
    for decode in decoders:
        try:
            found = decode()
        except (binascii.Error, ValueError):
            continue
        if len(found) >= 10 and all(32 <= one < 127 or one in b"\n\t\r" for one in found):
            return True
    return False
