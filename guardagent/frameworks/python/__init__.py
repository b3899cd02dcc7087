"""Plain Python functions."""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = [
    "Answer",
    "ToolTurn",
    "arun_agent",
    "arun_tool_calls",
    "attach",
    "conversation",
    "current_conversation",
    "guard_tools",
    "guarded",
    "run_agent",
    "run_tool_calls",
]

if TYPE_CHECKING:
    from guardagent.frameworks.python.adapter import *
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
