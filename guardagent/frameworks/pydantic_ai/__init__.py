"""Pydantic AI."""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = ["AgentRunEnded", "AgentRunHalted", "answer_requests", "conversation", "guarded"]

if TYPE_CHECKING:
    from guardagent.frameworks.pydantic_ai.adapter import *
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
