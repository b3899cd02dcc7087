"""Flows: generators that yield model calls and end with a verdict, with one sync and one async driver.

A failed model call is raised in the flow, at the point of the call.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeVar

from guardagent.errors import ModelError
from guardagent.models import Completion, Model
from guardagent.models.metering import Meter
from guardagent.models.prompts import ModelCall
from guardagent.types import Verdict

T = TypeVar("T")

Flow = Generator[ModelCall, Completion, Verdict]


def drive(flow: Flow, meter: Meter) -> Verdict:
    """Runs a flow and returns its verdict, with the model usage."""
    turn = _FlowState(flow)
    try:
        turn.start()
        while turn.call is not None:
            with meter.metered_call(turn.call) as asking:
                if asking.needs_model and meter.model is not None:
                    asking.answer = meter.model.complete(turn.call.prompt.messages, **_options(turn.call))
            turn.resume(asking.outcome)
    finally:
        flow.close()
    return turn.verdict(meter)


async def adrive(flow: Flow, meter: Meter) -> Verdict:
    """Runs a flow without blocking the event loop: its own work runs in a thread."""
    turn = _FlowState(flow)
    try:
        await _in_thread(turn.start)
        while turn.call is not None:
            with meter.metered_call(turn.call) as asking:
                if asking.needs_model and meter.model is not None:
                    asking.answer = await _acomplete(meter.model, turn.call)
            await _in_thread(partial(turn.resume, asking.outcome))
    finally:
        flow.close()
    return turn.verdict(meter)


class _FlowState:
    """The state of a flow: it waits for a model call (`call`), or has ended."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._result: Verdict | None = None
        self.call: ModelCall | None = None

    def start(self) -> None:
        self._advance(partial(next, self._flow))

    def resume(self, outcome: Completion | ModelError) -> None:
        if isinstance(outcome, ModelError):
            self._advance(partial(self._flow.throw, outcome))
        else:
            self._advance(partial(self._flow.send, outcome))

    def verdict(self, meter: Meter) -> Verdict:
        assert self._result is not None
        return self._result.changed(usage=meter.usage)

    def _advance(self, step: Callable[[], ModelCall]) -> None:
        try:
            self.call = step()
        except StopIteration as stop:
            self.call, self._result = None, stop.value


async def _acomplete(model: Model, call: ModelCall) -> Any:
    complete = getattr(model, "acomplete", None)
    if complete is not None:
        return await complete(call.prompt.messages, **_options(call))
    return await asyncio.to_thread(model.complete, call.prompt.messages, **_options(call))


def _options(call: ModelCall) -> dict[str, Any]:
    return {"temperature": call.temperature} if call.temperature else {}


async def _in_thread(work: Callable[[], T]) -> T:
    """Runs work in a thread. On cancellation, even a second one, it waits for the end: nothing is left running."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise
