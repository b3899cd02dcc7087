"""The functions of the pack's rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit

from guardagent.packs import named_values, plain_name, strings
from guardagent.packs.web import has_secret, is_internal, is_known, is_opaque, plain_host

_URLS = frozenset(
    "url urls uri uris link links href hrefs address addresses targeturl endpoint website site page pages "
    "webpage "
    "starturl weburl pageurl requesturl fullurl fetchurl sourceurl imageurl fileurl resource "
    "navigateurl".split()
)
_HOSTS = frozenset("host hostname server domain".split())
_BASES = frozenset("baseurl base origin".split())
_PATHS = frozenset("path route".split())
_BODIES = frozenset(
    "body data json payload form formdata files file content postdata requestbody bodyjson multipart".split()
)
_PARAMETERS = frozenset("params query queryparams queryparameters searchparams".split())
_METHODS = frozenset("method httpmethod verb requestmethod".split())
_CONTENTS = _BODIES | frozenset(
    "prompt instruction instructions description question query text reason headers selector script".split()
)
_SENT_HEADERS = frozenset(
    "authorization cookie proxyauthorization xapikey apikey xauthtoken xhttpmethodoverride host".split()
)
_URL = re.compile(
    r"\s*(?:[A-Za-z][A-Za-z0-9+.-]*://|//|www\.|(?:javascript|data|file|view-source|blob):)", re.IGNORECASE
)
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f\\\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def web_findings(arguments: dict[str, Any], sends: bool, hosts: Sequence[str], only: bool, longest: int) -> list[str]:  # noqa: FBT001
    """The kinds of danger in the arguments of a call that requests an address; without one, it is unreadable.

    Args:
        arguments: the arguments; the address is `url`, `uri`, `link`, ...
        sends: whether the tool always sends data.
        hosts: the known hosts: they may get data.
        only: whether all other hosts are denied.
        longest: the longest token in an address for another host.
    """
    addresses = list(_addresses(arguments))
    kinds = {"unreadable"} if not addresses else set()
    sends = sends or _sends(arguments)
    for value in addresses:
        texts = strings(value)
        kinds |= {"unreadable"} if texts is None else set()
        for text in texts or ():
            kinds |= _of_address(_with_parameters(text, arguments), sends, tuple(hosts), only, longest)
    return sorted(kinds)


def _addresses(arguments: Mapping[str, Any]) -> Iterator[Any]:
    yield from named_values(arguments, _URLS)
    for host in named_values(arguments, _HOSTS):
        yield _of_host(host) if isinstance(host, str) else host
    paths = [path for path in named_values(arguments, _PATHS) if isinstance(path, str)]
    for base in named_values(arguments, _BASES):
        yield base
        yield from (
            address for path in paths if isinstance(base, str) for address in (base + path, urljoin(base, path))
        )
    yield from _further(arguments)


def _with_parameters(text: str, arguments: Mapping[str, Any]) -> str:
    """An address with the parameters that the tool adds to it."""
    parameters = [
        named_value
        for named_value in named_values(arguments, _PARAMETERS)
        if isinstance(named_value, Mapping) and named_value
    ]
    return (
        text
        if not parameters
        else "&".join(
            (text + ("" if "?" in text else "?"), *(urlencode(parameter, doseq=True) for parameter in parameters))
        )
    )


def _of_host(host: str) -> str:
    bare = host.count(":") > 1 and "[" not in host
    return host if "://" in host else f"http://[{host}]" if bare else f"http://{host}"


def _further(value: Any) -> Iterator[str]:
    """Addresses in arguments with other names."""
    if isinstance(value, str):
        if _URL.match(value):
            yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if plain_name(key) not in _CONTENTS | _URLS:
                yield from _further(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _further(inner)


def _sends(arguments: Mapping[str, Any]) -> bool:
    """Whether a request sends data: another method than GET, a body, or headers with credentials."""
    methods = [
        str(named_value).strip().upper() for named_value in named_values(arguments, _METHODS) if named_value is not None
    ]
    headers = [
        plain_name(name)
        for named_value in named_values(arguments, {"headers", "cookies", "auth"})
        for name in _names(named_value)
    ]
    return (
        any(method not in ("GET", "HEAD", "OPTIONS", "") for method in methods)
        or any(bool(named_value) for named_value in named_values(arguments, _BODIES))
        or any(header in _SENT_HEADERS for header in headers)
        or any(bool(named_value) for named_value in named_values(arguments, {"auth", "cookies"}))
    )


def _names(headers: Any) -> Iterator[str]:
    if isinstance(headers, Mapping):
        yield from headers
    elif isinstance(headers, str):
        yield from (line.partition(":")[0].strip() for line in headers.splitlines())
    elif isinstance(headers, list | tuple):
        for header in headers:
            yield from _names(
                header.get("name", "")
                if isinstance(header, Mapping)
                else header[:1]
                if isinstance(header, list)
                else header
            )


def _split(text: str) -> SplitResult | None:
    text = text.strip()
    if re.match(r"[\w.-]+(?::\d+)?(?:[/?#]|$)", text) or text.startswith("["):
        text = f"https://{text}"
    try:
        url = urlsplit(f"https:{text}" if text.startswith("//") else text)
        _ = url.port
    except ValueError:
        return None
    return url


@lru_cache(256)  # each rule reads the same address
def _of_address(text: str, sends: bool, hosts: tuple[str, ...], only: bool, longest: int) -> frozenset[str]:  # noqa: FBT001
    return frozenset(_kinds_of(text, sends, hosts, only, longest))


def _kinds_of(text: str, sends: bool, hosts: Sequence[str], only: bool, longest: int) -> Iterator[str]:  # noqa: FBT001
    if text.strip().lower() == "about:blank":
        return
    url = _split(text)
    if url is None or not text.strip() or _FORBIDDEN.search(text.strip()):
        yield "unreadable"
    if url is None:
        return
    if url.scheme.lower() not in ("http", "https"):
        yield "scheme"
        return
    host = plain_host(url.hostname or "")
    known = is_known(host, hosts)
    if (is_internal(host) and host not in [host.lower() for host in hosts]) or (only and not known):
        yield "host"
    if not host.isascii() or "%" in host or "/" in host or not url.netloc.isascii():
        yield "unreadable"
    if has_secret(url):
        yield "credentials"
    if sends and not known:
        yield "sends"
    if not known and is_opaque(url, longest):
        yield "opaque"
