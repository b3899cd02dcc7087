"""Whether what a part of this package works with is installed, in a version that it was tried with."""

from __future__ import annotations

import re
from collections.abc import Mapping

from guardagent.errors import InputError


def require(distributions: Mapping[str, str], extra: str) -> None:
    """Makes sure that distributions are installed, each at least in a version.

    Raises:
        InputError: one is missing or older; the text says what to install.
    """
    from importlib.metadata import PackageNotFoundError, version

    for name, least in distributions.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = None
        if problem := problem_of(name, least, found):
            raise InputError(f"{problem}; expected {name} {least} or newer: pip install -U 'guardagent[{extra}]'")


def problem_of(name: str, least: str, found: str | None) -> str:
    """Why an installed version, where None is none, will not do; empty where it will."""
    if found is None:
        return f"{name} is not installed"
    return f"{name} {found} is too old" if _numbers(found) < _numbers(least) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
