"""The host of `guardagent.frameworks.langgraph.adapter`, in a version that the adapter was tried with."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from guardagent.errors import InputError

LEAST = {"langchain": (1, 4), "langgraph": (1, 2)}
"""The oldest that will do: before, a ToolNode and retries swallow what stops or interrupts a run."""


def require_host() -> None:
    """Raises an InputError that says what to install, where the host is missing or too old."""
    for name in LEAST:
        try:
            found = version(name)
        except PackageNotFoundError:
            found = None
        if (problem := problem_of(name, found)) is not None:
            raise InputError(problem)


def problem_of(name: str, found: str | None) -> str | None:
    """What is wrong with an installed version, where None is none; None where it will do."""
    least = ".".join(map(str, LEAST[name]))
    needed = f"expected {name} {least} or newer; pip install 'guardagent[langgraph]'"
    if found is None:
        return f"{name} is not installed; {needed}"
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < LEAST[name]:
        return f"{name} {found} is too old; {needed}"
    return None
