"""Names of a package that come from a module of it, which is imported when the first of them is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection
from typing import Any


def lazy_getattr(package: str, module: str, names: Collection[str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package: gives some names from its module `module`."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{module}"), name)

    return get
