"""Screens proposed calls: finds the monitors that certainly report nothing, all at once.

A policy can have hundreds of rules about one tool. A monitor decides its rule alone, with evidence, and reads the same
arguments again. The screen of a tool is one generated function for all of its monitors. It decides nothing else: a rule
that does not certainly hold is left to its monitor, and so is every rule if the screen fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from guardagent.policy.evaluation.monitor_interface import Monitor, RuleContext, SessionCall
from guardagent.policy.evaluation.screen_code import ScreenCode

Numbered = Sequence[tuple[int, Monitor]]
Screening = Callable[[RuleContext, SessionCall, Sequence[Any]], Numbered]

WARM_UP = 32  # checks before the function is generated, which takes as long as some of them


class Screen:
    """The screen for one kind of call: calls of one tool, with the same labels that rules refer to.

    Args:
        monitors: the monitors that apply, with their numbers.
        kind: such a call, without arguments.
    """

    def __init__(self, monitors: Numbered, kind: SessionCall) -> None:
        self._monitors, self._kind = monitors, kind
        self._checks = 0
        self._function: Screening | None = None

    def remaining(self, context: RuleContext, call: SessionCall, memory: Sequence[Any]) -> Numbered:
        """The monitors that have to judge a proposed call."""
        if self._function is None:
            self._checks += 1
            if self._checks < WARM_UP:
                return self._monitors
            self.generate()
        try:
            return self._function(context, call, memory)  # type: ignore[misc]
        except Exception:  # noqa: BLE001 - each monitor then meets its own errors
            return self._monitors

    def generate(self) -> None:
        """Generates the function. Where that fails, all monitors remain."""
        try:
            self._function = _generated(self._monitors, self._kind)
        except Exception:  # noqa: BLE001 - as above
            self._function = self._all

    def _all(self, _context: RuleContext, _call: SessionCall, _memory: Sequence[Any]) -> Numbered:
        return self._monitors


def _generated(monitors: Numbered, kind: SessionCall) -> Screening:
    code, checks = ScreenCode(), []
    for number, monitor in monitors:
        screened = getattr(monitor, "screened", None)
        text = screened(code, number, kind) if screened is not None else None
        left = f"left.append({code.constant((number, monitor))})"
        if text is None:
            checks.append(left)
        elif text != "True":
            checks.append(f"if not ({text}): {left}")
    return code.function(checks, monitors=monitors)
