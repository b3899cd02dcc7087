"""Acme Flows: `flow = guarded(flow, guard)`.

    guarded(flow, guard)    each step asks the guard before it runs

Extra: `guardagent[acme-flows]`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from guardagent._support.requirements import require
from guardagent.enforcement import EnforcementPoint, HostCall, ToolSpec, run
from guardagent.frameworks._template.package import DISTRIBUTIONS, EXTRA

require(DISTRIBUTIONS, EXTRA)

__all__ = ["guarded"]


def guarded(flow: Any, guard: EnforcementPoint, *, conversation: str) -> Any:
    """A flow whose steps ask the guard before they run; a step that is denied raises `ToolDenied`.

    Raises:
        InputError: a rule names a tool that is probably a misspelling of one of the flow's.
    """
    guard.attach([ToolSpec(step.tool) for step in flow.steps])
    guarded = copy.copy(flow)
    guarded.steps = [_guarded(step, guard, conversation) for step in flow.steps]
    return guarded


def _guarded(step: Any, guard: EnforcementPoint, conversation: str) -> Any:
    guarded, execute = copy.copy(step), step.run
    guarded.run = _asking(execute, step.tool, guard, conversation)
    return guarded


def _asking(execute: Callable[..., Any], tool: str, guard: EnforcementPoint, conversation: str) -> Callable[..., Any]:
    def judged(args: Mapping[str, Any]) -> Any:
        return run(guard, HostCall(tool, args, conversation), execute)

    return judged
