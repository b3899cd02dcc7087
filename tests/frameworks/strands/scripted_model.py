"""A model of Strands that follows a script."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from strands.models import Model

from guardagent.testing.conformance import call_ids

Turn = str | Sequence[tuple[str, Any]]


class ScriptedModel(Model):
    """Says its turns, word by word, then `done`.

    Attributes:
        read: the messages of each request.
        offered: the declarations of the tools in each request.
    """

    def __init__(self, turns: Iterable[Turn], **config: Any) -> None:
        self._turns, self._config = iter(turns), config
        self.read: list[Any] = []
        self.offered: list[Any] = []

    def update_config(self, **model_config: Any) -> None:
        self._config.update(model_config)

    def get_config(self) -> Any:
        return self._config

    async def structured_output(self, output_model: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        yield {"output": output_model(**json.loads(str(next(self._turns))))}

    async def stream(self, messages: Any, tool_specs: Any = None, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.read.append([{**message} for message in messages])
        self.offered.append(tool_specs)
        turn = next(self._turns, "done")
        yield {"messageStart": {"role": "assistant"}}
        for part in _text(turn) if isinstance(turn, str) else _calls(turn):
            yield part
        yield {"messageStop": {"stopReason": "end_turn" if isinstance(turn, str) else "tool_use"}}


def _text(text: str) -> Iterable[Any]:
    yield {"contentBlockStart": {"start": {}}}
    for word in text.split(" "):
        yield {"contentBlockDelta": {"delta": {"text": f"{word} "}}}
    yield {"contentBlockStop": {}}


def _calls(calls: Sequence[tuple[str, Any]]) -> Iterable[Any]:
    for call_id, (name, args) in zip(call_ids(calls), calls, strict=True):
        yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": call_id}}}}
        written = args if isinstance(args, str) else json.dumps(args)
        yield {"contentBlockDelta": {"delta": {"toolUse": {"input": written}}}}
        yield {"contentBlockStop": {}}
