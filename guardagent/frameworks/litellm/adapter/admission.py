"""Admits requests: their tools must be known to the rules, and their messages to the guard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from guardagent.enforcement import ToolGuard
from guardagent.enforcement.schema import read_object
from guardagent.errors import InputError
from guardagent.frameworks.litellm.adapter.caller import conversation_of
from guardagent.frameworks.litellm.adapter.conversations import CallRecords, UnknownCallError
from guardagent.frameworks.litellm.adapter.coverage import api_of
from guardagent.frameworks.litellm.adapter.exchange import GatewayExchange
from guardagent.frameworks.litellm.adapter.formats.model_api import ShownHistory
from guardagent.frameworks.litellm.adapter.judge import GuardrailOptions
from guardagent.frameworks.litellm.adapter.open_conversations import OpenConversations
from guardagent.frameworks.litellm.adapter.tools import ComparedTools


class Admission:
    """Decides whether a request may go to the model.

    Args:
        records: the calls that the guard allowed.
        options: the behaviour of the guardrail.
    """

    def __init__(self, records: CallRecords, options: GuardrailOptions) -> None:
        self._records, self._options = records, options
        self._tools, self._open = ComparedTools(records.guard), OpenConversations(records.guard)

    async def admit(self, data: Mapping[str, Any], auth: Any, call_type: str) -> GatewayExchange:
        """Returns the exchange that a request begins.

        Raises:
            InputError: the request is refused; the message says what to do.
        """
        options, guard = self._options, self._records.guard
        api = api_of(data, call_type, options.unguarded)
        if api is None:
            return GatewayExchange(None)
        tools = api.tools(data, options.unguarded_tools)
        history = api.history(data, options.unguarded_tools)
        conversation = conversation_of(data, auth, options.conversation)
        if conversation is None:
            if tools or history.calls or history.results or guard.judges_answers:
                raise InputError(self._unnamed())
            return GatewayExchange(api, None, {}, history)
        await self._tools.compare(tools)
        if isinstance(guard, ToolGuard) and guard.lifecycle.time_limit.inline:
            seen = self._confirm(conversation, history)  # nothing here waits
        else:
            seen = await asyncio.to_thread(self._confirm, conversation, history)
        exchange = GatewayExchange(api, conversation, {tool.name: tool for tool in tools}, history, seen)
        self._open.enter(conversation, exchange)
        return exchange

    def _confirm(self, conversation: str, history: ShownHistory) -> list[str] | None:
        """Compares a client's messages with what the guard allowed, and records new results.

        Returns:
            The ids of all results, if the guard does not know one; otherwise None.

        Raises:
            InputError: they show something else.
        """
        steps = [partial(self._records.settle, conversation, *one) for one in history.results.items()]
        steps += [partial(self._check, conversation, one) for one in history.calls]
        unknown = [error for step in steps if (error := _unknown_call(step)) is not None]
        if unknown and self._options.unknown_calls != "judge":
            raise InputError(
                f"{unknown[0]}; begin a new conversation, keep conversations in a ledger that all processes of the "
                "proxy share, or set 'unknown_calls: judge' in the guardrail's options"
            )
        if history.new_turn:
            self._records.guard.turn(conversation)
        return list(history.results) if unknown else None

    def _check(self, conversation: str, call: Any) -> None:
        args = call.args if isinstance(call.args, Mapping) else read_object(str(call.args or ""), call.name)
        self._records.check_shown(conversation, call.id, call.name, args)

    def _unnamed(self) -> str:
        return (
            "this request names no conversation, so its tool calls cannot be judged: send the header "
            f"{self._options.conversation!r}, 'litellm_session_id', or 'session_id' in the metadata, with one id for "
            "all requests of a conversation"
        )


def _unknown_call(step: Callable[[], None]) -> UnknownCallError | None:
    """Returns the error of a step if it is about an unknown call."""
    try:
        step()
    except UnknownCallError as error:
        return error
    return None
