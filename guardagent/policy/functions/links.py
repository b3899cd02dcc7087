"""`links(text)`: the links in a string, normalised and without duplicates.

    https://… ftp://…          with a scheme
    www.shop.com  //shop.com   without one: they count as http
    [text](…)  [ref]: …        Markdown: also 'mailto:' and other schemes, but no relative links
    href=…  src=…  action=…    HTML, the same

The result is what a browser opens: scheme and host in lower case, without user name, default port and dot segments,
with '/' for an empty path. So 'https://shop.com@evil.com' is 'https://evil.com/'.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from guardagent.policy.functions import RuleFunction
from guardagent.policy.functions._entities import without_entities
from guardagent.policy.functions._search import matches_in
from guardagent.policy.language.values import Unknown

_ENDS = r"\s<>\"'`\x{a0}\x{2000}-\x{200a}\x{2028}\x{2029}\x{3000}"
_RUN = rf"(?:[^{_ENDS}()\[\]{{}}]|\([^{_ENDS}()]*\)|\[[0-9A-Fa-f:.]*\])+"  # brackets only in pairs
_LINK = "|".join(
    (
        r"\b(?i:href|src|action)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'<>`]+))",
        rf"\]\(\s*<?({_RUN})",
        rf"\]:\s*<?({_RUN})",
        rf"((?i:https?:[/\\]|[a-z][a-z0-9+.-]{{1,30}}:[/\\]{{2}}){_RUN})",
        rf"\b((?i:www\.){_RUN})",
        rf"(?:^|[{_ENDS}(\[=])(//[^{_ENDS}/()\[\]{{}}]+\.{_RUN})",
    )
)
_NEXT = re.compile(r"[,;|](?=[A-Za-z][A-Za-z0-9+.-]{1,30}:[/\\])")  # between links without a space
_PARTS = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):)?([/\\]*)([^/\\?#]*)([^?#]*)(.*)", re.DOTALL)
_WEB = {"http": "80", "https": "443"}


def _links(text: str) -> Any:
    found = matches_in(without_entities(text), _LINK)
    if isinstance(found, Unknown):
        return found
    return list(dict.fromkeys(link for groups in found for link in _links_of(groups[1:])))


def _links_of(groups: list[str | None]) -> Iterator[str]:
    """The links of one match; a value of an attribute is one link."""
    attribute = next((one for one in groups[:3] if one is not None), None)
    run = next((one for one in groups[3:] if one is not None), "")
    parts = [re.sub(r"[\t\r\n]", "", attribute)] if attribute is not None else _NEXT.split(run)
    for part in parts:
        link = _normalized(part.strip("".join(map(chr, range(33)))).rstrip(".,;:!?*_~"))
        if link:
            yield link


def _normalized(link: str) -> str:
    """The link as a browser opens it; empty for a relative one."""
    scheme, slashes, host, path, rest = _PARTS.fullmatch(link.replace("\\/", "/")).groups(default="")  # type: ignore[union-attr]
    scheme = scheme.lower()
    if not scheme and len(slashes) < 2 and not (host.lower().startswith("www.") and not slashes):
        return ""
    if scheme not in _WEB and scheme and len(slashes) < 2:
        return f"{scheme}:{slashes}{host}{path}{rest}"
    scheme = scheme or "http"
    return f"{scheme}://{_host(host, _WEB.get(scheme, ''))}{_path(path)}{rest}"


def _host(authority: str, default_port: str) -> str:
    """The host and port."""
    address = authority.rpartition("@")[2]
    host, _, port = address.rpartition(":") if re.search(r":[0-9]*$", address) else (address, "", "")
    host = unicodedata.normalize("NFKC", unquote(host)).lower().replace("\u3002", ".").rstrip(".")
    return f"{host}:{port}" if port not in ("", default_port) else host


def _path(path: str) -> str:
    """The path without dot segments."""
    kept: list[str] = []
    segments = path.replace("\\", "/").split("/")[1:]
    for segment in segments:
        dots = segment.lower().replace("%2e", ".")
        if dots == ".." and kept:
            kept.pop()
        elif dots not in (".", ".."):
            kept.append(segment)
    ends_open = bool(segments) and segments[-1].lower().replace("%2e", ".") in (".", "..") and kept
    return "/" + "/".join(kept) + ("/" if ends_open else "")


FUNCTION = RuleFunction(_links, (("text",),), result="list")
