"""The default: Monty, and RestrictedPython for programs with syntax that Monty lacks.

The engine is chosen before any of the program runs; an error of a run never causes a second attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from guardagent.sandbox.engines import monty, restricted
from guardagent.types import Functions

if TYPE_CHECKING:
    import datetime as dt

    from guardagent.sandbox import Limits


def problem() -> str:
    """Returns why this engine cannot work on this machine; empty if it can."""
    return monty.problem()


class Engine:
    def __init__(self, limits: Limits) -> None:
        self._monty = monty.Engine(limits)
        self._restricted = restricted.Engine(limits)

    def run(self, program: str, inputs: Mapping[str, Any], functions: Functions, now: dt.datetime | None = None) -> Any:
        try:
            return self._monty.run(program, inputs, functions, now)
        except monty.UnsupportedSyntaxError:
            if restricted.problem():
                raise
            return self._restricted.run(program, inputs, functions, now)

    def unconfined(self) -> str:
        """Returns why workers of either engine are not confined by the hardening layers; empty if they are."""
        return self._monty.unconfined() or self._restricted.unconfined()

    def close(self) -> None:
        self._monty.close()
        self._restricted.close()
