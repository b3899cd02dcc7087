"""Observes whether an MCP server's answer is an error, which the SDK does not pass on."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from mcp.shared import exceptions

# An error that the server itself answered with; mcp 2 spells it otherwise than mcp 1.
McpError: type[Exception] = getattr(exceptions, "MCPError", None) or exceptions.McpError


@dataclass(slots=True)
class ServerAnswer:
    """A server's answer to the running call.

    Attributes:
        failed: whether the answer is an error.
        seen: whether there was an answer; there is none for a tool outside an MCP server.
        parts: the output that the SDK shows, and the structured content.
    """

    failed: bool = False
    seen: bool = False
    parts: tuple[Any, ...] = ()

    def shown(self, output: Any) -> Any:
        """The tool's output as rules see it: of a single text, the text."""
        if self.seen and isinstance(output, dict) and output.get("type") == "text":
            return output.get("text")
        return output


_answer: ContextVar[ServerAnswer | None] = ContextVar("guardagent_mcp_answer", default=None)


@contextmanager
def observed_answer() -> Iterator[ServerAnswer]:
    """Records a server's answer inside the block."""
    answer = ServerAnswer()
    token = _answer.set(answer)
    try:
        yield answer
    finally:
        _answer.reset(token)


class _AnswerExtractor:
    """The server's `custom_data_extractor`, the one hook that is shown the whole answer; the operator's own goes on."""

    def __init__(self, before: Any) -> None:
        self._before = before

    async def __call__(self, context: Any) -> Any:
        answer = _answer.get()
        if answer is not None:
            answer.seen, answer.failed = True, bool(context.is_error)
            answer.parts = (context.tool_output, context.structured_content)
        data = self._before(context) if self._before is not None else None
        return await data if inspect.isawaitable(data) else data


def observe(server: Any) -> None:
    """Records the answers of a server."""
    before = getattr(server, "custom_data_extractor", None)
    if not isinstance(before, _AnswerExtractor):
        server.custom_data_extractor = _AnswerExtractor(before)
