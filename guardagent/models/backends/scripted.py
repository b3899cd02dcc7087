"""Models that answer, or propose tool calls, from a script: for tests and demonstrations, without a network."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from guardagent._support.files import read_json_lines
from guardagent.errors import ContentError, GuardError, ModelError
from guardagent.models import Completion, Message
from guardagent.models.backends import checked_prices, cost_of
from guardagent.models.chat import ChatAnswer, ChatCandidate, WrittenCall
from guardagent.types import Usage

Answer = str | GuardError
Script = Iterable[Answer] | Callable[[Sequence[Message]], Answer]


class ScriptedModel:
    """Returns the answers of a script in order, and records the requests. Safe to use from several threads.

    Args:
        script: the answers, of which errors are raised; or a function from the messages to the answer.
        name: the model's name.
        prices: US dollars per million prompt tokens and per million completion tokens; words count as tokens.

    Attributes:
        requests: the messages of each request.
    """

    def __init__(self, script: Script, *, name: str = "scripted", prices: tuple[float, float] | None = None) -> None:
        self.name = name
        self.prices = prices
        self.max_tokens = 1000
        self.requests: list[tuple[Message, ...]] = []
        self._lock = threading.Lock()
        self._answer = script if callable(script) else _in_order(script)

    def complete(self, messages: Sequence[Message], *, temperature: float = 0.0) -> Completion:  # noqa: ARG002
        """Answers as a `Model`.

        Raises:
            ModelError: the script has ended, or has an error at this point.
        """
        with self._lock:
            self.requests.append(tuple(messages))
            answer = self._answer(messages)
        if isinstance(answer, GuardError):
            raise answer
        counts = sum(len(message.content.split()) for message in messages), len(answer.split())
        return Completion(answer, Usage(0, 0, *counts, cost=cost_of(self.prices, *counts)))


class Backend(ScriptedModel):
    """`scripted/FILE`: the answers of a JSON Lines file, one `{"answer": TEXT}` or `{"error": TEXT}` per line."""

    def __init__(self, path: str, *, prices: tuple[float, float] | None = None) -> None:
        script = [_read(record, path, line) for line, record in read_json_lines(path)]
        super().__init__(script, name=f"scripted/{path}", prices=checked_prices(prices))


def _in_order(answers: Iterable[Answer]) -> Callable[[Sequence[Message]], Answer]:
    left = iter(tuple(answers))
    return lambda _: next(left, None) or ModelError("the script has no further answer")


def _read(record: dict[str, object], path: str, line: int) -> Answer:
    for kind in ("answer", "error"):
        if record.keys() == {kind} and isinstance(text := record[kind], str):
            return text if kind == "answer" else ModelError(text)
    raise ContentError('expected {"answer": TEXT} or {"error": TEXT}', path, line)


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
            answers = [
                scripted_answer for _ in range(candidates) if (scripted_answer := next(self._left, None)) is not None
            ]
        if not answers:
            raise ModelError("the script has no further answer")
        return ChatAnswer(tuple(_candidate(answer) for answer in answers), Usage(completion_tokens=len(answers)))


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
