"""Strands Agents."""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = ["GuardIntervention", "StrandsHalted", "conversation", "guarded"]

if TYPE_CHECKING:
    from guardagent.frameworks.strands.adapter import *
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
