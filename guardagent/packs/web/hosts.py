"""Whether a host is a machine of the own network, in any spelling."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Collection

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
    return any(host == one.lower() or (one.startswith("*.") and host.endswith(one[1:].lower())) for one in hosts)
