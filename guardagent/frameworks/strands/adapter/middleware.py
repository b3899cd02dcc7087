"""The host's registry of middleware, through which every run, model call and tool call of an agent passes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import cache
from typing import Any, Protocol

from strands.middleware._agent_stream import AgentStreamStage
from strands.middleware.stages import ExecuteToolStage, InvokeModelStage

ATTACHMENT = "guardagent_attachment"
Next = Callable[[Any], Any]


class StrandsStages(Protocol):
    """Wraps the stages of an agent."""

    def run(self, context: Any, call_next: Next) -> AsyncIterator[Any]: ...

    def model(self, context: Any, call_next: Next) -> AsyncIterator[Any]: ...

    def served(self, terminal: Next) -> Next: ...

    def tool(self, terminal: Next) -> Next: ...


def guard_middleware(agent: Any, stages: StrandsStages) -> None:
    """Puts a guard around an agent's middleware, whenever that was or will be added, and behind it at the tools."""
    registry = agent._middleware_registry  # noqa: SLF001 - the public seams can be overtaken by later ones
    kind: Any = type(registry)
    registry.__class__ = _guarded_registry(kind)
    setattr(registry, ATTACHMENT, stages)


def attachment_of(agent: Any) -> Any:
    """Returns the attachment of an agent; None if it has no guard."""
    return getattr(getattr(agent, "_middleware_registry", None), ATTACHMENT, None)


@cache
def _guarded_registry(base: Any) -> Any:
    return type(base.__name__, (_GuardedRegistry, base), {"__module__": base.__module__})


class _GuardedRegistry:
    """Invokes the stages of an agent with a guard."""

    async def invoke(self, stage: Any, context: Any, terminal: Next) -> AsyncIterator[Any]:
        stages: StrandsStages = vars(self)[ATTACHMENT]
        inner: Any = super()
        if stage is ExecuteToolStage:
            events = inner.invoke(stage, context, stages.tool(terminal))
        elif stage is InvokeModelStage:
            served = stages.served(terminal)
            events = stages.model(context, lambda changed: inner.invoke(stage, changed, served))
        elif stage is AgentStreamStage:
            events = stages.run(context, lambda changed: inner.invoke(stage, changed, terminal))
        else:
            events = inner.invoke(stage, context, terminal)
        try:
            async for event in events:
                yield event
        finally:
            await events.aclose()
