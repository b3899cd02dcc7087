"""The SDK's client and its `query`, with final answers held until they are judged."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import claude_agent_sdk
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

from guardagent.errors import InputError
from guardagent.frameworks.claude_agent_sdk.adapter.answers import judged_messages
from guardagent.frameworks.claude_agent_sdk.adapter.attachment import ClaudeAttachment, attachment_of
from guardagent.frameworks.claude_agent_sdk.adapter.scopes import holding_answers


class GuardedClient(ClaudeSDKClient):
    """A client whose messages show only answers that were judged.

    Args:
        options: guarded ones.
        transport: as of `ClaudeSDKClient`.

    Raises:
        InputError: the options have no guard.
    """

    def __init__(self, options: ClaudeAgentOptions, transport: Any = None) -> None:
        self._attachment = _attached(options)
        super().__init__(options, transport)

    async def connect(self, prompt: Any = None) -> None:
        with holding_answers():
            await super().connect(prompt)

    async def receive_messages(self) -> AsyncIterator[Any]:
        async with aclosing(super().receive_messages()) as messages:
            async for message in judged_messages(self._attachment, messages):
                yield message


async def query(*, prompt: Any, options: ClaudeAgentOptions, transport: Any = None) -> AsyncGenerator[Any, None]:
    """As the SDK's `query`; its messages show only answers that were judged.

    Args:
        prompt: as of the SDK's.
        options: guarded ones.
        transport: as of the SDK's.

    Raises:
        InputError: the options have no guard.
    """
    attachment = _attached(options)
    async with aclosing(claude_agent_sdk.query(prompt=prompt, options=options, transport=transport)) as messages:
        async for message in judged_messages(attachment, _begun(messages)):
            yield message


async def _begun(messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Passes on messages, the first of which connects."""
    with holding_answers():
        first = await anext(messages, None)
    if first is not None:
        yield first
    async for message in messages:
        yield message


def _attached(options: Any) -> ClaudeAttachment:
    found = attachment_of(options)
    if found is None:
        raise InputError("these options have no guard; expected those of guarded(options, guard)")
    return found
