"""The Model Context Protocol."""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = ["GuardMiddleware", "GuardServerMiddleware"]

if TYPE_CHECKING:
    from guardagent.frameworks.mcp.adapter import GuardMiddleware, GuardServerMiddleware
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
