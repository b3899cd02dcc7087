"""A model client of AutoGen that follows a script."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any

from autogen_core import FunctionCall
from autogen_core.models import CreateResult, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

from guardagent.testing.conformance import call_ids

INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}
Turn = str | Sequence[tuple[str, Any]]


class ScriptedClient(ReplayChatCompletionClient):
    """Says its turns, whole or word by word, then `done`. A call's arguments are values, or JSON text.

    Attributes:
        read: the messages of each request.
        tools: the tools of each request, by name.
    """

    def __init__(self, turns: Iterable[Turn]) -> None:
        super().__init__([], model_info=INFO)
        self._turns = iter(turns)
        self.read: list[list[Any]] = []
        self.tools: list[Mapping[str, Any]] = []

    async def create(self, messages: Any, *, tools: Any = (), **_: Any) -> CreateResult:
        self.read.append(list(messages))
        schemas = [tool if isinstance(tool, Mapping) else tool.schema for tool in tools]
        self.tools.append({schema["name"]: schema for schema in schemas})
        turn = next(self._turns, "done")
        usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
        if isinstance(turn, str):
            return CreateResult(finish_reason="stop", content=turn, usage=usage, cached=False)
        proposed = zip(call_ids(turn), turn, strict=True)
        calls = [FunctionCall(id=call_id, name=name, arguments=_text(args)) for call_id, (name, args) in proposed]
        return CreateResult(finish_reason="function_calls", content=calls, usage=usage, cached=False)

    async def create_stream(self, messages: Any, **options: Any) -> AsyncGenerator[Any, None]:
        whole = await self.create(messages, **options)
        if isinstance(whole.content, str):
            for word in whole.content.split(" "):
                yield f"{word} "
        yield whole


def _text(args: Any) -> str:
    return args if isinstance(args, str) else json.dumps(args)
