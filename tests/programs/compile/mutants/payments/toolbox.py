"""Limits of amounts."""

from __future__ import annotations


def check_limits(found: dict[str, float], limits: dict[str, float]) -> tuple[bool, dict[str, str]]:
    """Whether every value stays within its limit.

    Args:
        found: name -> the value.
        limits: name -> the most that it may be; each value has one.

    Returns:
        (denied, broken): broken is name -> what is too much.

    Raises:
        ValueError: a value or limit is no number, or a value has no limit.
    """
    broken: dict[str, str] = {}
    for name, value in found.items():
        for number in (value, limits.get(name)):
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise ValueError(f"{name} is no number, or has no limit")  # noqa: TRY004 - the contract
        if value > limits[name]:
            broken[name] = f"{value} is more than {limits[name]}"
    return bool(broken), broken
