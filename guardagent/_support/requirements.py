"""Checks that optional dependencies are installed in a tested version."""

from __future__ import annotations

import re
from collections.abc import Mapping

from guardagent.errors import InputError


def require(distributions: Mapping[str, str], extra: str) -> None:
    """Makes sure that distributions are installed, each in at least a minimum version.

    Raises:
        InputError: one is missing or older; the message has the command that installs it.
    """
    from importlib.metadata import PackageNotFoundError, version

    for name, minimum in distributions.items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            installed = None
        if problem := version_problem(name, minimum, installed):
            raise InputError(f"{problem}; expected {name} {minimum} or newer: pip install -U 'guardagent[{extra}]'")


def version_problem(name: str, minimum: str, installed: str | None) -> str:
    """Returns the problem with an installed version (None if it is missing); empty if it is recent enough."""
    if installed is None:
        return f"{name} is not installed"
    return f"{name} {installed} is too old" if _major_minor(installed) < _major_minor(minimum) else ""


def _major_minor(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
