"""Hosts of the own network in any spelling, and data in an address that nobody can read.

Such data is a way to send secrets with a plain request.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from urllib.parse import SplitResult, parse_qsl, unquote

_INTERNAL = re.compile(
    r"(?:^|\.)(?:localhost|localdomain|local|internal|intranet|corp|home|lan|private|arpa|svc|consul|onion|i2p|invalid)$"
    r"|^(?:instance-data|metadata)\b|^kubernetes\.default|^(?:host|gateway)\.docker\."
)
# Public names that stand for an address of one's choice, often an internal one.
_EMBEDDING = re.compile(
    r"(?:^|\.)(?:nip\.io|sslip\.io|xip\.io|xip\.name|localtest\.me|lvh\.me|vcap\.me|lacolhost\.com|yoogle\.com|traefik\.me|fbi\.com"
    r"|1u\.ms|rbndr\.us|rebind\.it|nip\.dev|local-ip\.\w+|localho\.st|readme\.localtest\.me|backname\.io|ip6\.name|bogon\.\w+)$"
)
_ADDRESS = re.compile(r"(?<!\d)(\d{1,3})[.-](\d{1,3})[.-](\d{1,3})[.-](\d{1,3})(?!\d)")
_METADATA = frozenset(map(ipaddress.ip_address, ("168.63.129.16", "100.100.100.200", "192.0.0.192", "169.254.169.254")))
_TRANSITION = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32"))
)


def plain_host(host: str) -> str:
    """The host in lower case, without a trailing dot, and with the plain forms of letters, digits and dots."""
    return unicodedata.normalize("NFKC", host).replace("\u3002", ".").lower().rstrip(".")


def is_internal(host: str) -> bool:
    """Whether a host, in its plain form, is or can be one of the own network. Addresses in odd spellings are."""
    if not host or _INTERNAL.search(host) or _EMBEDDING.search(host):
        return True
    if ":" in host:
        return not _is_public(host.partition("%")[0])
    if re.fullmatch(r"\d+|0x[0-9a-f]*", host.rpartition(".")[2]):
        return not _is_public(host)
    if "." not in host:
        return True
    return any(
        not _is_public(".".join(match.groups()))
        for match in _ADDRESS.finditer(host)
        if max(map(int, match.groups())) < 256
    )


def _is_public(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address) and any(address in network for network in _TRANSITION):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved and address not in _METADATA


def is_known(host: str, hosts: Collection[str]) -> bool:
    """Whether a host is in a list. `*.example.com` stands for the names below it, without itself."""
    return any(
        host == entry.lower() or (entry.startswith("*.") and host.endswith(entry[1:].lower())) for entry in hosts
    )


# --- data in an address

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
_SHORTEST_TEXT = 14  # characters that encode ten


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
        or any(_is_encoded(value, longest) for value in (*values, *_segments(url.fragment)))
        or any(_is_encoded(segment, longest + _ID) for segment in _segments(url.path))
        or any(len(label) > 30 and re.search(r"\d", label) is not None for label in url.netloc.split("."))
        or any(_is_text(label) for label in url.netloc.split("."))
    )


def _segments(text: str) -> Iterator[str]:
    for segment in re.split(r"[/;,!]", unquote(text)):
        yield from re.split(r"\.(?=\w{1,5}$)", segment)


def _is_encoded(value: str, longest: int) -> bool:
    """Whether a value is one long token, or the encoded form of a text."""
    if len(value) <= min(longest, _SHORTEST_TEXT - 1):
        return False
    pieces = [len(part) for part in re.split(r"[-_.\s:+/=]", value) if _is_token(part)]
    is_single = re.fullmatch(r"[A-Za-z0-9+/=_~.-]+", value) is not None and len(value) > longest
    return max(pieces, default=0) > (20 if is_single else longest) or _is_text(value)


def _is_token(piece: str) -> bool:
    """Whether a piece is neither a word nor a hash such as that of a commit."""
    is_hash = len(piece) in _HASH_LENGTHS and re.fullmatch(r"[0-9a-fA-F]+", piece) is not None
    return not is_hash and re.search(r"\d|[a-z][A-Z]", piece) is not None


def _is_text(value: str) -> bool:
    """Whether a value decodes to at least ten printable characters."""
    plain = value.strip().replace("-", "+").replace("_", "/").rstrip("=")
    if len(plain) < _SHORTEST_TEXT:
        return False
    decoders: tuple[Callable[[], bytes], ...] = (
        lambda: base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True),
        lambda: bytes.fromhex(plain),
        lambda: base64.b32decode(plain.upper() + "=" * (-len(plain) % 8)),
    )
    for decode in decoders:
        try:
            text = decode()
        except (binascii.Error, ValueError):
            continue
        if len(text) >= 10 and all(32 <= byte < 127 or byte in b"\n\t\r" for byte in text):
            return True
    return False
