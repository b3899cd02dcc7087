"""Screens proposed calls: finds the monitors that certainly report nothing, all at once.

A policy can have hundreds of rules about one tool. A monitor decides its rule alone, with evidence, and reads the same
arguments again. The screen of a tool is one generated function for all of its monitors. It decides nothing else: a rule
that does not certainly hold is left to its monitor, and so is every rule if the screen fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from guardagent.policy.evaluation.monitor_interface import Monitor, RuleContext, SessionCall
from guardagent.policy.evaluation.screen_code import ScreenCode

Numbered = Sequence[tuple[int, Monitor]]
Screening = Callable[[RuleContext, SessionCall, Mapping[int, Any]], Numbered]

WARM_UP = 32  # checks before the function is generated, which takes as long as some of them


class CallScreen:
    """The screen for one kind of call: calls of one tool, with the same labels that rules refer to.

    Args:
        monitors: the monitors that apply, with their numbers.
        kind: such a call, without arguments.

    Attributes:
        idle: whether all monitors always remain.
    """

    def __init__(self, monitors: Numbered, kind: SessionCall) -> None:
        self._monitors, self._kind = monitors, kind
        self._checks = 0
        self._function: Screening | None = None
        self.idle = not any(hasattr(monitor, "screened") for _, monitor in monitors)

    def remaining(self, context: RuleContext, call: SessionCall, memory: Mapping[int, Any]) -> Numbered:
        """The monitors that have to judge a proposed call."""
        if self._function is None:
            self._checks += 1
            if self._checks >= WARM_UP:
                self.generate()
            return self._monitors
        try:
            return self._function(context, call, memory)
        except Exception:  # noqa: BLE001 - each monitor then meets its own errors
            return self._monitors

    def generate(self) -> None:
        """Generates the function. Where that fails, or no monitor has a condition for it, all monitors remain."""
        if self.idle or self._function is not None:
            return
        try:
            self._function = _generated(self._monitors, self._kind)
        except Exception:  # noqa: BLE001 - as above
            self._function = None
        self.idle = self._function is None


def _generated(monitors: Numbered, kind: SessionCall) -> Screening | None:
    """Generates the function; None if it would leave out no monitor."""
    code = ScreenCode()
    texts = [_condition(code, number, monitor, kind) for number, monitor in monitors]
    if all(text is None for text in texts):
        return None
    checks = []
    for one, text in zip(monitors, texts, strict=True):
        left = f"left.append({code.constant(one)})"
        checks += [left] if text is None else [] if text == "True" else [f"if not ({text}): {left}"]
    return code.function(checks, monitors=monitors)


def _condition(code: ScreenCode, number: int, monitor: Monitor, kind: SessionCall) -> str | None:
    """An expression that is true only if the monitor reports nothing; None if there is none."""
    screened = getattr(monitor, "screened", None)
    try:
        return None if screened is None else screened(code, number, kind)
    except RecursionError:  # of a deep condition
        return None
