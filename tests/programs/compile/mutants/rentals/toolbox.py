"""Rules that a booking keeps or breaks."""

from __future__ import annotations


def check_booking(kept: dict[str, bool]) -> tuple[bool, dict[str, str]]:
    """Whether a booking keeps every rule.

    Args:
        kept: rule -> whether it is kept.

    Returns:
        (denied, broken): broken is rule -> "broken".

    Raises:
        ValueError: there is no rule, or one is neither kept nor broken.
    """
    if not kept or not all(type(value) is bool for value in kept.values()):
        raise ValueError("expected a rule or more, each True or False")
    broken = {name: "broken" for name, value in kept.items() if not value}
    return bool(broken), broken
