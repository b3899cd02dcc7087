"""The sandbox seam: one protocol, one file per engine.

An engine is a module of this folder with a class `Engine(limits)`; its name is the module's name. It runs
one guard program in a fresh interpreter and gives back what `check` returned.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from guardagent.errors import UnknownNameError

__all__ = ["AUTO", "Limits", "Sandbox", "engine_names", "load_sandbox"]

AUTO = "monty"
"""The engine that `sandbox="auto"` takes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one run of a program may use."""

    seconds: float = 2.0
    memory_bytes: int = 64 * 1024 * 1024
    recursion: int = 200
    calls: int = 1000
    printed_bytes: int = 64 * 1024


class Sandbox(Protocol):
    """Runs guard programs. Safe to use from several threads."""

    def run(self, program: str, inputs: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
        """Runs `check(**inputs)` of a program in a fresh interpreter that can call `functions`, and nothing else.

        What a function is called with is the host's own copy: nothing that the program does later changes it.
        What a function raises reaches the program as a ValueError with the same message.

        Returns:
            What `check` returned, as plain Python values; nothing it printed counts.

        Raises:
            ProgramError: the program is not valid, has no `check`, or raised.
            LimitError: it went over a limit, or its interpreter died.
        """
        ...

    def close(self) -> None:
        """Ends what is kept warm. The sandbox can be used again afterwards."""
        ...


def engine_names() -> list[str]:
    """The engines of this installation."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def load_sandbox(name: str = "auto", limits: Limits | None = None) -> Sandbox:
    """The engine of a name; `auto` is the default one.

    Raises:
        UnknownNameError: there is no such engine.
    """
    engine = AUTO if name == "auto" else name
    if engine not in engine_names():
        raise UnknownNameError("sandbox engine", name, ["auto", *engine_names()])
    module = importlib.import_module(f"{__name__}.{engine}")
    return cast("Sandbox", module.Engine(limits or Limits()))
