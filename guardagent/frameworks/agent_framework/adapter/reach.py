"""The agents that a tool or a workflow runs, so that these are guarded as well."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from agent_framework import FunctionTool, SupportsAgentRun, Workflow

from guardagent._support.requirements import require_parts
from guardagent.errors import InputError

_AS_TOOL = ".as_tool.<locals>."
_HOLDERS = ("_agent", "_manager")


def agent_in(tool: FunctionTool) -> Any:
    """Returns the agent that `as_tool` made a tool of; None for other tools.

    Raises:
        InputError: the host made it of an agent, and hides which.
    """
    if _AS_TOOL not in getattr(tool.func, "__qualname__", ""):
        return None
    agent = inspect.getclosurevars(tool.func).nonlocals.get("self") if inspect.isfunction(tool.func) else None
    if agent is None:
        raise InputError(f"{tool.name!r} does not tell its agent; install a version that the adapter was tried with")
    return agent


def agents_of(target: Any) -> Iterator[Any]:
    """Yields the agents of a workflow, of the workflows in it, and those that manage others; anything else itself."""
    workflow = target if isinstance(target, Workflow) else getattr(target, "workflow", None)
    if not isinstance(workflow, Workflow):
        yield target
        return
    require_parts(workflow, "get_executors_list")
    for executor in workflow.get_executors_list():
        if isinstance(getattr(executor, "workflow", None), Workflow):
            yield from agents_of(executor)
        yield from _held_by(executor)


def _held_by(holder: Any) -> Iterator[Any]:
    for name in _HOLDERS:
        held = getattr(holder, name, None)
        if isinstance(held, SupportsAgentRun):
            yield from agents_of(held)
        elif held is not None:
            yield from _held_by(held)
