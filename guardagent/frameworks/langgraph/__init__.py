"""LangChain and LangGraph."""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = [
    "GuardMiddleware",
    "RunStopped",
    "approve",
    "edit",
    "guarded_answer_node",
    "guarded_tool_node",
    "reject",
    "unless_stopped",
]

if TYPE_CHECKING:
    from guardagent.frameworks.langgraph.adapter import *
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
