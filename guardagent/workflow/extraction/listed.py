"""The modules of one name in the folders of all frameworks."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.util import find_spec
from types import ModuleType


def framework_modules(name: str) -> tuple[ModuleType, ...]:
    """The modules `guardagent.frameworks.*.NAME` that there are."""
    frameworks = importlib.import_module("guardagent.frameworks")
    paths = [f"{frameworks.__name__}.{one.name}.{name}" for one in pkgutil.iter_modules(frameworks.__path__)]
    return tuple(importlib.import_module(path) for path in paths if find_spec(path))
