"""The class of a guarded agent: a subclass of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic_ai.capabilities import AbstractCapability

from guardagent.errors import InputError

ATTACHMENT = "guardagent_attachment"
PARTS = ("iter", "run_stream", "root_capability", "toolsets", "_get_toolset", "_resolve_realtime_session")


class StreamMark(AbstractCapability[Any]):
    """Tells `iter` that `run_stream` runs it."""


@cache
def guarded_class(base: Any) -> Any:
    """Returns the class of an agent with a guard. Every run has the guard's capability, and all tools are guarded.

    `run`, `run_sync`, `run_stream` and `run_stream_events` run `iter`, and so do the host's servers and interfaces. The
    class has one base only, since an agent can change its class to no other.
    """
    return type(base)(base.__name__, (base,), {"__module__": base.__module__, **_methods(base)})


def _methods(base: Any) -> dict[str, Callable[..., Any]]:
    def iter(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A001 - the host's name
        return base.iter(self, *args, **_attachment(self).begin(self, kwargs))

    def run_stream(self: Any, *args: Any, **kwargs: Any) -> Any:
        capabilities = [*(kwargs.pop("capabilities", None) or ()), StreamMark()]
        return base.run_stream(self, *args, capabilities=capabilities, **kwargs)

    def _get_toolset(self: Any, *args: Any, **kwargs: Any) -> Any:
        toolset = base._get_toolset(self, *args, **kwargs)  # noqa: SLF001 - the host's seam
        return _attachment(self).toolset(toolset, kwargs.get("run_capability"))

    def _resolve_realtime_session(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG001 - the host's arguments
        raise InputError("a realtime session speaks before its answer can be judged; run a guarded agent without one")

    return {one.__name__: one for one in (iter, run_stream, _get_toolset, _resolve_realtime_session)}


def _attachment(agent: Any) -> Any:
    return vars(agent)[ATTACHMENT]
