"""LiteLLM's proxy."""

from typing import TYPE_CHECKING

from guardagent._support.plugins import lazy_getattr

__all__ = ["Guardrail", "principal"]

if TYPE_CHECKING:
    from guardagent.frameworks.litellm.adapter import *
else:
    __getattr__ = lazy_getattr(__name__, "adapter", __all__)
