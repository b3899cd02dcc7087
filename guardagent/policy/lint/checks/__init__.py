"""The checks, one in each file: a generator `check(subject)` of findings. A file that is put here takes part."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator

from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.subject import Subject

Check = Callable[[Subject], Iterator[LintFinding]]


def all_checks() -> list[Check]:
    """The checks, in the order of their names."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}").check for name in names]
