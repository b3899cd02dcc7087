"""The messages of a session, as rules read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_OF_THE_HOST = "adk_request_"


class ShownMessages:
    """The messages of a session; they grow with it.

    Attributes:
        messages: role and text of each message.
        seen: the ids of the calls whose results the session shows. A result with an `error` counts as none: the host or
            the guard has written it in place of the tool's.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, str]] = []
        self.seen: list[str] = []
        self._read = 0

    def update(self, events: Sequence[Any], known: set[str], unguarded: frozenset[str]) -> None:
        """Reads further events.

        Args:
            events: those of the session.
            known: the ids of the calls that reached the guard.
            unguarded: the names of the tools that the guard does not judge.
        """
        if len(events) < self._read:  # the host has shortened the session
            self.messages, self.seen, self._read = [], [], 0
        for event in events[self._read :]:
            self._add(event, known, unguarded)
        self._read = len(events)

    def _add(self, event: Any, known: set[str], unguarded: frozenset[str]) -> None:
        if text := text_of(event.content):
            self.messages.append({"role": "user" if event.author == "user" else "assistant", "content": text})
        for response in event.get_function_responses():
            name, error = response.name or "", (response.response or {}).get("error")
            if error or name in unguarded or name.startswith(_OF_THE_HOST):
                continue
            self.messages.append({"role": "tool", "content": str(response.response)})
            if response.id and response.id not in known:
                self.seen.append(response.id)


def text_of(content: Any) -> str:
    """Returns the text of a message, without the model's thoughts."""
    parts = getattr(content, "parts", None) or ()
    return "\n".join(one.text for one in parts if one.text and not one.thought)


def calling_event(session: Any, call_id: str | None) -> Any:
    """Returns the event of a session with the model's message that proposes a call; None if there is none."""
    for event in reversed(session.events) if call_id else ():
        if any(one.id == call_id for one in event.get_function_calls()):
            return event
    return None
