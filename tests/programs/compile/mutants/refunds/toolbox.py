"""Rules that refunds keep or break."""

from __future__ import annotations


def check_refunds(kept: dict[str, bool]) -> tuple[bool, dict[str, str]]:
    """Whether the refunds keep every rule.

    Args:
        kept: rule -> whether it is kept.

    Returns:
        (denied, broken): broken is rule -> "broken".
    """
    broken = {name: "broken" for name, value in kept.items() if not value}
    return bool(broken), broken
