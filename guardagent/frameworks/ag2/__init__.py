"""AG2."""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = ["AskHalted", "conversation", "guarded", "stream_id"]

if TYPE_CHECKING:
    from guardagent.frameworks.ag2.adapter import *
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
