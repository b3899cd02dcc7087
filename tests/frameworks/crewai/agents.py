"""Crews and agents of CrewAI whose model follows a script, with native tool calls or in the text of ReAct."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")
os.environ.setdefault("CREWAI_TESTING", "true")
os.environ.setdefault("OTEL_SDK_DISABLED", "true")
os.environ.setdefault("CREWAI_STORAGE_DIR", tempfile.mkdtemp(prefix="crewai-"))  # its home folder by default

from crewai import Agent, BaseLLM, Crew, Task
from pydantic import Field, PrivateAttr

from guardagent.testing.conformance import call_ids, written

Kind = Literal["native", "text"]
Calls = Sequence[tuple[str, Any]]


class ScriptedLLM(BaseLLM):
    """Says its turns, then `done`. In the text of ReAct, the calls of a turn come one by one.

    Attributes:
        read: the messages of each request.
        tools: the tools of the last request.
    """

    kind: Kind = "native"
    read: list[list[Any]] = Field(default_factory=list)
    tools: list[Any] = Field(default_factory=list)
    _turns: Iterator[str | Calls] = PrivateAttr()

    @classmethod
    def of(cls, kind: Kind, turns: Iterable[str | Calls]) -> ScriptedLLM:
        made = cls(model="scripted", kind=kind)
        made._turns = iter(turns) if kind == "native" else _one_by_one(turns)
        return made

    def call(self, messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
        self.tools = list(tools or ())
        self.read.append(list(messages) if isinstance(messages, list) else [messages])
        turn = next(self._turns, "done")
        return self.spoken(turn, **kwargs)

    def spoken(self, turn: str | Calls, **kwargs: Any) -> Any:
        """Returns a message; word by word before it, if it streams."""
        if isinstance(turn, str):
            for word in turn.split(" ") if self.stream else ():
                self._emit_stream_chunk_event(word, kwargs.get("from_task"), kwargs.get("from_agent"), response_id="r1")
            return turn if self.kind == "native" else f"Thought: I now know it\nFinal Answer: {turn}"
        if self.kind == "text":
            name, args = next(iter(turn))
            return f"Thought: I act\nAction: {name}\nAction Input: {written(args)}"
        return [
            {"id": call_id, "function": {"name": name, "arguments": written(args)}}
            for call_id, (name, args) in zip(call_ids(turn), turn, strict=True)
        ]

    def last_text(self, at: int) -> str:
        """Returns all that the model read in a request."""
        return json.dumps(self.read[at], default=str)

    def supports_function_calling(self) -> bool:
        return self.kind == "native"

    def supports_stop_words(self) -> bool:
        return False


def _one_by_one(turns: Iterable[str | Calls]) -> Iterator[str | Calls]:
    for turn in turns:
        yield from [turn] if isinstance(turn, str) else [[call] for call in turn]


def agent_of(llm: ScriptedLLM, tools: Iterable[Any], role: str = "clerk", **options: Any) -> Agent:
    """Returns an agent without a guard."""
    return Agent(role=role, goal="helps", backstory="is new", llm=llm, tools=list(tools), **options)


def task_of(agent: Agent, description: str = "please", **options: Any) -> Task:
    return Task(description=description, expected_output="an answer", agent=agent, **options)


def crew_of(llm: ScriptedLLM, tools: Iterable[Any], **options: Any) -> Crew:
    """Returns a crew of one agent with one task, without a guard."""
    agent = agent_of(llm, tools)
    return Crew(agents=[agent], tasks=[task_of(agent)], **options)
