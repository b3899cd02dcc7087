"""A model that proposes tool calls from a script: for tests and demonstrations, without a network."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from guardagent.errors import GuardError, ModelError
from guardagent.models.chat import ChatAnswer, ChatCandidate, WrittenCall
from guardagent.types import Usage

ScriptedCall = tuple[str, Mapping[str, Any] | str]  # a tool and its arguments; a string is used unchanged
ScriptedAnswer = str | ScriptedCall | Sequence[ScriptedCall] | ChatCandidate
ChatScript = Iterable[ScriptedAnswer | GuardError]


class ScriptedChat:
    """Returns the answers of a script in order, and records the requests.

    Args:
        script: the answers, each a string, a call `(tool, arguments)`, a list of calls, or a `ChatCandidate`; an error
            is raised. A request for several candidates takes that many answers.

    Attributes:
        requests: the messages of each request.
    """

    def __init__(self, script: ChatScript) -> None:
        self.name = "scripted"
        self.requests: list[list[dict[str, Any]]] = []
        self._left = iter(list(script))
        self._lock = threading.Lock()

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],  # noqa: ARG002 - the script decides
        *,
        candidates: int = 1,
        stream: bool = False,  # noqa: ARG002
        temperature: float = 0.0,  # noqa: ARG002
    ) -> ChatAnswer:
        """Answers as a `ChatModel`.

        Raises:
            ModelError: the script has ended, or has an error at this point.
        """
        with self._lock:
            self.requests.append([dict(message) for message in messages])
            answers = [one for _ in range(candidates) if (one := next(self._left, None)) is not None]
        if not answers:
            raise ModelError("the script has no further answer")
        return ChatAnswer(tuple(_candidate(one) for one in answers), Usage(completion_tokens=len(answers)))


def _candidate(answer: ScriptedAnswer | GuardError) -> ChatCandidate:
    if isinstance(answer, GuardError):
        raise answer
    if isinstance(answer, ChatCandidate):
        return answer
    if isinstance(answer, str):
        return ChatCandidate(answer)
    calls = [answer] if isinstance(answer, tuple) else answer
    return ChatCandidate(calls=tuple(_call(number, *call) for number, call in enumerate(calls, 1)))


def _call(number: int, tool: str, arguments: Mapping[str, Any] | str) -> WrittenCall:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return WrittenCall(tool, text, f"call_{number}")
