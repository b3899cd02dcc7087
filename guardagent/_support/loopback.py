"""Recognizes addresses that only this machine reaches."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str | None) -> bool:
    """Whether a host is `localhost` or a loopback address. Any other name may belong to any address."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False
