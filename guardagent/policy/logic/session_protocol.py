"""The part of a session that the reasoner uses."""

from __future__ import annotations

from collections.abc import Mapping
from threading import RLock
from typing import Any, Protocol

from guardagent.policy.monitors.conversation import ConversationState
from guardagent.policy.policies import Policies
from guardagent.types import Event, Verdict


class ReasonerSession(Protocol):
    """A conversation under a policy; see `guardagent.Session`."""

    policies: Policies
    _conversation: ConversationState
    _facts: Mapping[str, Any]
    _principal: Mapping[str, Any] | None
    _lock: RLock

    @property
    def halted(self) -> bool: ...

    @property
    def history(self) -> tuple[Event, ...]: ...

    def check(
        self, tool: str, args: Mapping[str, Any] = ..., *, facts: Mapping[str, Any] | None = ..., reserve: bool = ...
    ) -> Verdict: ...
