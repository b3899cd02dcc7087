"""Requirements of installed packages: tested versions of dependencies, and hosts that an adapter was tried with."""

from __future__ import annotations

import re
from collections.abc import Mapping

from guardagent.errors import InputError


def require(distributions: Mapping[str, str], extra: str, tried: Mapping[str, tuple[str, str]] | None = None) -> None:
    """Makes sure that distributions are installed, each in at least a minimum version.

    Args:
        distributions: distribution -> the minimum version.
        extra: the extra that has them.
        tried: of a host, distribution -> the oldest and the newest version tried with its adapter; others warn.

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
            raise InputError(f"{problem}; expected {name} {minimum} or newer: {install_hint(extra)}")
    warn_untried(tried or {})


def install_hint(*extras: str) -> str:
    """Returns how to install extras, for messages. No index has this package, so a command cannot just name it."""
    names = ",".join(extras)
    return f"install the extra '{names}': pip install '.[{names}]' in the checkout, or 'FILE.whl[{names}]'"


def version_problem(name: str, minimum: str, installed: str | None) -> str:
    """Returns the problem with an installed version (None if it is missing); empty if it is recent enough."""
    if installed is None:
        return f"{name} is not installed"
    return f"{name} {installed} is too old" if _numbers(installed)[:2] < _numbers(minimum)[:2] else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def warn_untried(tried: Mapping[str, tuple[str, str]]) -> None:
    """Logs a warning for each distribution outside the versions that its adapter was tried with.

    Args:
        tried: distribution -> its oldest and its newest version.
    """
    import logging
    from importlib.metadata import PackageNotFoundError, version

    log = logging.getLogger("guardagent")
    for name, (oldest, newest) in tried.items():
        try:
            installed = version(name)
        except PackageNotFoundError:
            continue
        is_older = not _numbers(oldest) <= _numbers(installed)[: len(_numbers(oldest))]
        if is_older or _numbers(installed)[: len(_numbers(newest))] > _numbers(newest):
            age, bound = ("older", oldest) if is_older else ("newer", newest)
            log.warning(
                "%s %s is %s than the versions that its adapter was tried with (%s)", name, installed, age, bound
            )


def require_parts(owner: object, *names: str) -> None:
    """Requires the parts of a host that its adapter replaces or calls.

    Raises:
        InputError: one is missing, so that calls might get past the guard.
    """
    missing = [name for name in names if not hasattr(owner, name)]
    if missing:
        label = getattr(owner, "__qualname__", None) or getattr(owner, "__name__", type(owner).__name__)
        raise InputError(
            f"{label} has no {missing[0]!r} in this version, so calls could get past the guard; "
            "install a version that the adapter was tried with"
        )
