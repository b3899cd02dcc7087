"""Exports names of a package from a module that is imported at the first access."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from typing import Any


def lazy_getattr(package: str, module: str, names: Collection[str]) -> Callable[[str], Any]:
    """Returns a `__getattr__` for a package that loads `names` from its module `module`."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{module}"), name)

    return get
