"""The functions of the rules: they read addresses, strings and names of tools."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

from guardagent.packs import leaves, letters

_ADDRESS = re.compile(r".*(uri|url|urls|uris|href|link|endpoint)")
_PATH = re.compile(r".*(path|paths|file|files|filename|filenames|folder|directory|dir|resource|source|target)")
_ALIKE = str.maketrans({"0": "o", "1": "l", "i": "l", "|": "l", "3": "e", "5": "s"})
_CLOUDS = ("169.254.169.254", "100.100.100.200", "192.0.0.192", "fd00:ec2::254")


def addresses(arguments: dict[str, Any]) -> list[str]:
    """The URIs in a call: the strings under 'uri', 'url' and the like, decoded."""
    return [_decoded(text) for key, text in _texts(arguments) if _ADDRESS.fullmatch(key)]


def paths(arguments: dict[str, Any]) -> list[str]:
    """The paths in a call: URIs, and the strings under 'path', 'file' and the like, decoded."""
    named = [text for key, text in _texts(arguments) if _ADDRESS.fullmatch(key) or _PATH.fullmatch(key)]
    return [_decoded(text).replace("\\", "/") for text in named]


def strings(value: Any) -> list[str]:
    """The strings in a value at any depth, without invisible characters that emoji and scripts use."""
    return [re.sub("[\u200b-\u200f\u2060\ufeff\u00ad]", "", text) for _, text in _texts(value)]


def keys_in(value: Any) -> list[str]:
    """The keys of a value at any depth, in lower case without separators."""
    return sorted(set(_keys(value)))


def host_kind(uri: str) -> str:
    """The kind of the host of a URI: 'metadata' (of a cloud), 'private', or 'other'."""
    try:
        host = (urlsplit(uri).hostname or "").rstrip(".")
    except ValueError:
        return "private"
    if host in _CLOUDS or host in ("metadata.google.internal", "metadata", "instance-data"):
        return "metadata"
    if host == "localhost" or host.endswith((".localhost", ".internal", ".local")):
        return "private"
    address = _ip_address(host)
    if address is None:
        return "other"
    plain = getattr(address, "ipv4_mapped", None) or address
    return "metadata" if str(plain) in _CLOUDS else "other" if plain.is_global else "private"


def skeleton(name: str) -> str:
    """A string that is equal for names that look alike."""
    plain = unicodedata.normalize("NFKC", name).lower()
    return re.sub(r"[^a-z0-9]", "", plain.replace("rn", "m").translate(_ALIKE))


def own_name(name: str) -> str:
    """The name of a tool without its server, as in 'mcp__SERVER__TOOL'; empty for a single common word."""
    part = name.split("__", 2)[2] if name.startswith("mcp__") and name.count("__") > 1 else name
    return part if re.search(r"[a-z][_.-]?[A-Z]|[_.-]", part) else ""


def _ip_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        number = int(host, 0) if re.fullmatch(r"0x[0-9a-f]+|[0-9]+", host) else None
        return ipaddress.ip_address(host if number is None else number)
    except ValueError:
        return ipaddress.ip_address("0.0.0.0") if re.fullmatch(r"[0-9a-fx.]*[0-9][0-9a-fx.]*", host) else None  # noqa: S104


def _decoded(text: str) -> str:
    return unquote(unquote(unicodedata.normalize("NFKC", text))).strip().lower()


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    return ((key, str(leaf)) for key, leaf in leaves(value) if leaf is not None)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield letters(name)
            yield from _keys(part)
    elif isinstance(value, list):
        for part in value:
            yield from _keys(part)
