"""Google's Agent Development Kit."""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = ["GuardPlugin", "RunnerHalted", "answer", "conversation_id", "questions"]

if TYPE_CHECKING:
    from guardagent.frameworks.adk.adapter import *
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
