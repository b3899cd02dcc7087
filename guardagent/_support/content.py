"""Where the shipped content (toolbox, memory, benchmarks) lies: inside a wheel, or beside the package in a checkout."""

from __future__ import annotations

from pathlib import Path

from guardagent.errors import InputError

_PACKAGE = Path(__file__).resolve().parents[1]


def shipped_folder(name: str) -> Path:
    """The folder of the shipped content `name`.

    Raises:
        InputError: it is not part of this installation.
    """
    if (bundled := _PACKAGE / "_content" / name).is_dir():
        return bundled
    root = _PACKAGE.parent
    if (root / "pyproject.toml").is_file() and (root / name).is_dir():
        return root / name
    raise InputError(f"{name}/ is not part of this installation; it comes with a checkout of the project; run it there")
