"""Claude Agent SDK."""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = ["GuardedClient", "conversation", "guarded", "query"]

if TYPE_CHECKING:
    from guardagent.frameworks.claude_agent_sdk.adapter import *
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
