"""The hand-offs of a Swarm: judged as the event `handoff(to=..., message=..., context=...)`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strands.multiagent import swarm
from strands.tools.decorator import DecoratedFunctionTool


def is_handoff(tool: Any) -> bool:
    """Whether a Swarm has given this tool to its agents."""
    function = getattr(tool, "_tool_func", None) if isinstance(tool, DecoratedFunctionTool) else None
    return bool(getattr(function, "__module__", None) == swarm.__name__ and tool.tool_name == "handoff_to_agent")


def as_judged(tool: Any, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the arguments as rules know them: the target of a hand-off is `to`."""
    if not is_handoff(tool):
        return args
    return {"to" if name == "agent_name" else name: value for name, value in args.items()}


def as_received(tool: Any, args: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the arguments as the tool knows them."""
    if not is_handoff(tool):
        return args
    return {"agent_name" if name == "to" else name: value for name, value in args.items()}
