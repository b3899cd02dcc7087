"""Normalizes URIs (RFC 3986, section 6), so that no other spelling of a resource bypasses a rule.

The normalized URI is judged and sent on. A URI that two readers may take for two resources is refused. Parts that a
server may ignore (a query, a trailing slash, the case of a host) stay; `readings` lists the URIs without them, which
are judged as well.
"""

from __future__ import annotations

import re
import unicodedata
from ipaddress import IPv4Address, IPv6Address
from itertools import product
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from guardagent.errors import InputError

_PORTS = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}
_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/?#]*))?(?P<path>[^?#]*)(?P<query>\?[^#]*)?"
)
_AUTHORITY = re.compile(r"(?:(?P<user>[^@]*)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[^:@\[\]]*)(?::(?P<port>[0-9]{0,9}))?")
_CODE = re.compile("%([0-9A-Fa-f]{2})")
_SEGMENT = "!$&'()*+,;=:@"  # besides letters, digits and -._~, which `quote` never encodes
_QUERY = _SEGMENT + "/?%"
_UNRESERVED = re.compile(rb"[A-Za-z0-9._~-]")


def normalised(uri: Any) -> str:
    """Returns the normal form of a URI.

    Raises:
        InputError: it is not a URI, or is ambiguous.
    """
    if not isinstance(uri, str) or any(
        unicodedata.category(character) in ("Cc", "Cs") or character == "\\" for character in uri
    ):
        raise _refusal(uri, "it holds control characters or backslashes")
    if uri != uri.strip():
        raise _refusal(uri, "it begins or ends with a space")
    if "#" in uri:
        raise _refusal(uri, "it has a fragment, which servers leave out")
    match = _PARTS.fullmatch(uri)
    if match is None:
        raise _refusal(uri, "it has no scheme")
    if re.search("%(?![0-9A-Fa-f]{2})", uri):
        raise _refusal(uri, "a % is followed by no two hexadecimal digits")
    scheme, authority, path = match["scheme"].lower(), match["authority"], match["path"]
    query = _query(uri, match["query"] or "")
    if scheme == "file":
        return _file(uri, authority, path, query)
    if scheme in _PORTS and not authority:
        raise _refusal(uri, "it names no host")
    if authority is None:
        return f"{scheme}:{_opaque(uri, path)}{query}"
    path = _path(uri, path)
    if path in ("", "/"):
        path = "/" if scheme in _PORTS else ""
    return f"{scheme}://{_authority(uri, scheme, authority)}{path}{query}"


def readings(uri: str) -> tuple[str, ...]:
    """Returns a normalised URI and the URIs that a server may take it for."""
    match = _PARTS.fullmatch(uri)
    assert match is not None
    host, path = "" if match["authority"] is None else f"//{match['authority']}", match["path"]
    bare = re.sub("^//.*@", "//", host)
    once = re.sub("/{2,}", "/", path)
    hosts = (host, host.lower(), bare, bare.lower())
    paths = (path, path.rstrip("/") or path[:1], once, once.rstrip("/") or path[:1])
    every = product(hosts, paths, (match["query"] or "", ""))
    return tuple(dict.fromkeys(f"{match['scheme']}:{''.join(parts)}" for parts in every))


def _file(uri: str, host: str | None, path: str, query: str) -> str:
    if (host or "").lower() not in ("", "localhost"):
        raise _refusal(uri, "it names a file of another machine")
    if query or not path.startswith("/") or "//" in path:
        raise _refusal(uri, "it does not name a file by an absolute path, such as file:///folder/file")
    path = _path(uri, path)
    names = path.split("/")[1:]
    if re.fullmatch("[A-Za-z](:|%7C)", names[0]):
        if names[0][1:] != ":":
            raise _refusal(uri, "it does not name a drive as in C:")
        names[0] = names[0].upper()
    if any(name.endswith((".", "%20")) for name in names):
        raise _refusal(uri, "a name ends with a dot or a space, which some systems leave out")
    return f"file:///{'/'.join(names)}"


def _authority(uri: str, scheme: str, text: str) -> str:
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        raise _refusal(uri, "it is unclear where its host ends and its port begins")
    if match["user"] is not None and scheme in _PORTS:
        raise _refusal(uri, "it names a user before its host")
    user = f"{_segment(uri, match['user'])}@" if match["user"] else ""
    port = str(int(match["port"])) if match["port"] else _PORTS.get(scheme, "")
    shown = f":{port}" if port != _PORTS.get(scheme, "") else ""
    return f"{user}{_host(uri, scheme, match['host'])}{shown}"


def _host(uri: str, scheme: str, text: str) -> str:
    if text.startswith("["):
        return f"[{_address(uri, text[1:-1], IPv6Address)}]"
    host = _segment(uri, text)
    if scheme not in _PORTS:
        if not host.strip("."):
            raise _refusal(uri, "its host consists of dots")
        return host
    host = host.lower().removesuffix(".")
    if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", host):
        raise _refusal(uri, "its host is not an ASCII name; expected one such as xn--bcher-kva.example")
    return _address(uri, host, IPv4Address) if re.fullmatch(r"\d+|0x[0-9a-f]*", host.rpartition(".")[2]) else host


def _address(uri: str, text: str, kind: type[IPv4Address | IPv6Address]) -> str:
    try:
        text_kind = kind(text)
    except ValueError:
        raise _refusal(uri, "its host is not an address in the usual form") from None
    if isinstance(text_kind, IPv6Address) and text_kind.ipv4_mapped is not None:
        raise _refusal(uri, "its host is an address of both kinds")
    return str(text_kind)


def _path(uri: str, text: str) -> str:
    """Returns a path without dot segments (RFC 3986, section 5.2.4), each name in one spelling."""
    kept: list[str] = []
    names = [_segment(uri, part) for part in text.split("/")]
    if any(";" in name and name.partition(";")[0] in (".", "..") for name in names):
        raise _refusal(uri, "a name in its path is dots with a parameter")
    for name in names:
        if name == "..":
            del kept[max(1, len(kept) - 1) :]
        elif name != ".":
            kept.append(name)
    return "/".join([*kept, ""] if names[-1] in (".", "..") else kept)


def _opaque(uri: str, text: str) -> str:
    if text.startswith("/"):
        return _path(uri, text)
    names = [_segment(uri, part) for part in text.split("/")]
    if any(name.strip(".") == "" for name in names):
        raise _refusal(uri, "its path has dots for names, or none")
    return "/".join(names)


def _segment(uri: str, text: str) -> str:
    """Percent-encodes only the characters of a name that need it."""
    try:
        plain = unicodedata.normalize("NFC", unquote_to_bytes(text).decode())
    except UnicodeDecodeError:
        raise _refusal(uri, "its encoded bytes are not UTF-8") from None
    if any(character in "/\\" or unicodedata.category(character) == "Cc" for character in plain):
        raise _refusal(uri, "it encodes slashes, backslashes or control characters")
    if _CODE.search(plain):
        raise _refusal(uri, "it is encoded twice")
    return quote(plain, safe=_SEGMENT)


def _query(uri: str, text: str) -> str:
    """Percent-encodes only the characters of a query that need it; an encoded & differs from a plain one."""

    def normal_code(code: re.Match[str]) -> str:
        byte = bytes.fromhex(code[1])
        if byte[0] < 0x20 or byte[0] == 0x7F:
            raise _refusal(uri, "it encodes control characters")
        return byte.decode() if _UNRESERVED.fullmatch(byte) else code[0].upper()

    plain = _CODE.sub(normal_code, quote(text, safe=_QUERY))
    return "" if plain == "?" else plain


def _refusal(uri: object, why: str) -> InputError:
    return InputError(f"the URI {str(uri)[:200]!r} can be read in several ways: {why}; expected it in its normal form")
