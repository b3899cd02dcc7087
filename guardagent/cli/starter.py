"""Creates the starter project of `guardagent init` from the files in `_starter/`."""

from __future__ import annotations

import shutil
from pathlib import Path

from guardagent.errors import InputError

_FILES = Path(__file__).parent / "_starter"


def create(folder: Path) -> str:
    """Copies the starter project into a new or empty folder.

    Returns:
        The next steps as text.

    Raises:
        InputError: the folder is not empty, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: already exists; expected a new or empty folder")
    try:
        shutil.copytree(_FILES, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error}") from None
    return (folder / "README.md").read_text(encoding="utf-8").replace("my-guard", str(folder))
