"""Locates the shipped content (toolbox, memory, benchmarks): inside a wheel, or beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path

from guardagent.errors import InputError, UnknownNameError

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped_folder(name: str) -> Path:
    """Returns the folder of the shipped content `name`.

    Raises:
        InputError: this installation does not have it.
    """
    if (bundled := _PACKAGE / "_content" / name).is_dir():
        return bundled
    root = _PACKAGE.parent
    if (root / "pyproject.toml").is_file() and (root / name).is_dir():
        return root / name
    raise InputError(f"the folder '{name}/' is not part of this installation; run this in a checkout of the project")


def shipped_packs() -> list[str]:
    """Returns the names of the shipped packs."""
    return sorted(path.parent.name for path in (_PACKAGE / "packs").glob("*/policy.yaml"))


def shipped_pack(name: str) -> Path:
    """Returns the folder of a shipped pack.

    Raises:
        UnknownNameError: there is no pack with this name.
    """
    known = shipped_packs()
    if name not in known:
        raise UnknownNameError("pack", name, known)
    return _PACKAGE / "packs" / name
