"""The default: Monty, and for programs with syntax that Monty lacks RestrictedPython.

Which of the two is settled before anything of the program has run; an error of a run is never a reason to try again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from guardagent.sandbox.engines import monty, restricted

if TYPE_CHECKING:
    import datetime as dt

    from guardagent.sandbox import Limits


def problem() -> str:
    """Why this engine cannot work on this machine; empty where it can."""
    return monty.problem()


class Engine:
    def __init__(self, limits: Limits) -> None:
        self._monty = monty.Engine(limits)
        self._restricted = restricted.Engine(limits)

    def run(
        self,
        program: str,
        inputs: Mapping[str, Any],
        functions: Mapping[str, Callable[..., Any]],
        now: dt.datetime | None = None,
    ) -> Any:
        try:
            return self._monty.run(program, inputs, functions, now)
        except monty.UnsupportedSyntaxError:
            if restricted.problem():
                raise
            return self._restricted.run(program, inputs, functions, now)

    def unconfined(self) -> str:
        """Why workers of either engine do not stand behind the hardening layers; empty where they do."""
        return self._monty.unconfined() or self._restricted.unconfined()

    def close(self) -> None:
        self._monty.close()
        self._restricted.close()
