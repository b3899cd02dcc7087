"""The guard's notes on each session of the host."""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardagent.enforcement.hosts import Named
from guardagent.frameworks.claude_agent_sdk.adapter.scopes import conversation_of
from guardagent.types import Verdict

UNNAMED = (
    "a fork of a session has a new id, and names no conversation: pass guarded(..., conversation=...), or connect "
    "inside 'with conversation(id):'"
)
_MAX_SESSIONS = 1000
_NOTIFICATION = "<task-notification>"  # a prompt of the host itself, about a task in the background


@dataclass(slots=True)
class ClaudeSession:
    """One session of the host.

    Attributes:
        conversation: the conversation that it belongs to.
        seen: the ids of the calls whose results its transcript showed when this process took it up.
        messages: the prompts of the user, as rules read them.
        batches: agent -> the number of its messages with calls.
        ended: the verdict that ended the run.
    """

    conversation: str | None
    seen: Sequence[str] = ()
    messages: list[dict[str, str]] = field(default_factory=list)
    batches: dict[str, int] = field(default_factory=dict)
    ended: Verdict | None = None

    def prompt(self, text: str) -> bool:
        """Notes a prompt. Returns whether it comes from the user."""
        self.ended = None
        if text.startswith(_NOTIFICATION):
            return False
        self.messages = [*self.messages, {"role": "user", "content": text}]
        return True

    def next_batch(self, agent: str) -> None:
        """Notes that the calls of an agent's message have ended."""
        self.batches[agent] = self.batches.get(agent, 0) + 1

    @property
    def last_prompt(self) -> str:
        return self.messages[-1]["content"] if self.messages else ""


class ClaudeSessions:
    """The sessions by id. Old ones are forgotten: their transcripts tell the rest.

    Args:
        named: the operator's name of the conversation, or a function that returns it.
        options: those of the sessions.
    """

    def __init__(self, named: Named, options: Any) -> None:
        self._named, self._forks, self._resumed = named, options.fork_session, options.resume
        self._resumes = bool(options.resume or options.continue_conversation)
        self._known: OrderedDict[str, ClaudeSession] = OrderedDict()

    async def of(self, found: Mapping[str, Any]) -> ClaudeSession:
        """Returns the session of a hook's input."""
        session, path = str(found["session_id"]), str(found.get("transcript_path") or "")
        if (known := self.known(session)) is not None:
            return known
        if self._forks:  # its own transcript is written later
            path = str(Path(path).with_name(f"{self._resumed}.jsonl")) if path else path
        shown = await asyncio.to_thread(result_ids, path, required=self._resumes)
        created = ClaudeSession(self.conversation(session), shown)
        self._known[session] = created
        while len(self._known) > _MAX_SESSIONS:
            self._known.popitem(last=False)
        return created

    def known(self, session: str | None) -> ClaudeSession | None:
        """Returns a session that has begun here."""
        return self._known.get(session or "")

    def conversation(self, session: str | None) -> str | None:
        """Returns the conversation of a session that begins, or of its answer."""
        return conversation_of(self._named, None if self._forks else session)


def result_ids(path: str, *, required: bool) -> tuple[str, ...]:
    """Returns the ids of the calls whose results a transcript shows.

    Args:
        path: a file with a JSON object per line.
        required: whether it has to be there; if it cannot be read, it shows a call that nobody knows.
    """
    if not required and not (path and Path(path).exists()):
        return ()  # of a session that begins
    try:
        with Path(path).open(encoding="utf-8") as lines:
            return tuple(one for line in lines if '"tool_result"' in line for one in _ids(json.loads(line)))
    except (OSError, ValueError):
        return (f"a call of the unreadable transcript {path!r}",)


def _ids(entry: Any) -> Iterator[str]:
    message = entry.get("message") if isinstance(entry, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else ():
        if block.get("type") == "tool_result" and not str(block.get("content")).startswith("<tool_use_error>"):
            yield str(block.get("tool_use_id"))
