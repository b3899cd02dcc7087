"""An event of a coding agent, and the answer to it, in the words of no host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from guardagent.types import EMPTY


class HookKind(StrEnum):
    """The kind of an event."""

    BEFORE = "before"  # a tool is about to run
    AFTER = "after"  # it has run
    PROMPT = "prompt"  # the user has written
    STOP = "stop"  # the agent is about to end its turn
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event.

    Attributes:
        name: the host's name of the event.
        session: the host's id of the conversation.
        cwd: the working folder of the agent.
        tool, args, call_id: the tool call; the id is empty if the host has none.
        agent: the sub-agent that proposes the call, if there is one.
        output, failed: the outcome of the call; `failed` is None if the host does not say.
        ran: False if the host says that the call never ran.
        repeated: whether the agent goes on because of an earlier answer to such an event.
    """

    kind: HookKind
    name: str
    session: str
    cwd: str = ""
    tool: str = ""
    args: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    call_id: str = ""
    agent: str | None = None
    output: Any = None
    failed: bool | None = None
    repeated: bool = False
    ran: bool = True


class HookDecision(StrEnum):
    """An answer: `ALLOW` leaves the decision to the host's own permissions."""

    ALLOW = "allow"
    DENY = "deny"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """The answer to an event.

    Attributes:
        reason: for the agent and its user; never empty unless the answer allows.
        note: shown to the user, whatever the decision is.
    """

    decision: HookDecision = HookDecision.ALLOW
    reason: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class HookOutput:
    """The answer as the host reads it: what the hook prints, and its exit status."""

    stdout: str = ""
    stderr: str = ""
    status: int = 0
