"""The SDK's Runner, for guarded agents: a session names the conversation, and a stream is held until it is judged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

from agents import Runner

from guardagent.frameworks.openai_agents.adapter.runs import RunScope, enter, scope


class GuardedRunner(Runner):
    """As `Runner`, with its arguments: `conversation_id`, or the session's id, names the conversation."""

    @classmethod
    async def run(cls, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002 - as Runner names it
        with _around(options):
            return await Runner.run(starting_agent, input, **options)

    @classmethod
    def run_sync(cls, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002
        with _around(options):
            return Runner.run_sync(starting_agent, input, **options)

    @classmethod
    def run_streamed(cls, starting_agent: Any, input: Any, **options: Any) -> Any:  # noqa: A002
        with _around(options):
            result = Runner.run_streamed(starting_agent, input, **options)
        attachment = getattr(starting_agent, "guardagent_attachment", None)
        if attachment is None or attachment.guard.judges_answers:  # who knows where an agent without one leads
            events = result.stream_events
            result.stream_events = lambda: _held(result, events())
        return result


async def _held(result: Any, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """The events, once all have come: a guardrail that trips raises before the first of them is seen.

    A run that was cancelled has no answer, so that its text was not judged, and is withheld.
    """
    found = [one async for one in events]
    cancelled = result.final_output is None and not result.interruptions
    for event in found:
        if not (cancelled and _may_have_text(event)):
            yield event


def _may_have_text(event: Any) -> bool:
    return event.type == "raw_response_event" or getattr(event, "name", "") == "message_output_created"


@contextmanager
def _around(options: dict[str, Any]) -> Iterator[None]:
    around = scope()
    named = options.get("conversation_id") or getattr(options.get("session"), "session_id", None)
    if around is not None and around.inside:
        yield  # a part of another run, whose conversation it shares
        return
    with enter(RunScope(named or (around.conversation if around else None), held=True)):
        yield
