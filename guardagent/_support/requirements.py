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

    for name, minimum in distributions.items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            installed = None
        if problem := version_problem(name, minimum, installed):
            raise InputError(f"{problem}; expected {name} {minimum} or newer: pip install -U 'guardagent[{extra}]'")


def version_problem(name: str, minimum: str, installed: str | None) -> str:
    """Why an installed version, where None is none, will not do; empty where it will."""
    if installed is None:
        return f"{name} is not installed"
    return f"{name} {installed} is too old" if _numbers(installed) < _numbers(minimum) else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
