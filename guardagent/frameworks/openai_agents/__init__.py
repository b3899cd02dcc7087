"""The OpenAI Agents SDK."""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = ["GuardedRunner", "RunHalted", "answer", "conversation", "guarded", "request"]

if TYPE_CHECKING:
    from guardagent.frameworks.openai_agents.adapter import *
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
