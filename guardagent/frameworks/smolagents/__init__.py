"""smolagents."""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = ["AgentHalted", "conversation", "guarded"]

if TYPE_CHECKING:
    from guardagent.frameworks.smolagents.adapter import *
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
