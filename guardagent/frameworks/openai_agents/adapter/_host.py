"""Whether the SDK is there, and new enough."""

from __future__ import annotations

import importlib.metadata

from guardagent.errors import InputError

OLDEST = (0, 24)


def require() -> None:
    """Raises InputError where the SDK is missing, or older than what this adapter was tried with."""
    needed = f"pip install 'guardagent[openai-agents]' (openai-agents {'.'.join(map(str, OLDEST))} or newer)"
    try:
        found = importlib.metadata.version("openai-agents")
    except importlib.metadata.PackageNotFoundError:
        raise InputError(f"the OpenAI Agents SDK is not installed; {needed}") from None
    check(found, needed)


def check(found: str, needed: str) -> None:
    """Raises InputError where a version is too old."""
    numbers = tuple(int(part) if part.isdigit() else 0 for part in found.split(".")[:2])
    if numbers < OLDEST:
        raise InputError(f"openai-agents {found} is too old for this adapter; {needed}")
