"""Admits requests: their tools must be known to the rules, and their messages to the guard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from guardagent.enforcement import ToolGuard
from guardagent.enforcement.schema import read_object
from guardagent.errors import InputError
from guardagent.frameworks.litellm.adapter.call_records import CallRecords, UnknownCallError
from guardagent.frameworks.litellm.adapter.caller import conversation_of
from guardagent.frameworks.litellm.adapter.coverage import api_of
from guardagent.frameworks.litellm.adapter.exchange import GatewayExchange
from guardagent.frameworks.litellm.adapter.formats.model_api import ShownHistory
from guardagent.frameworks.litellm.adapter.options import GuardrailOptions
from guardagent.frameworks.litellm.adapter.tools import ComparedTools

_log = logging.getLogger("guardagent")


class Admission:
    """Decides whether a request may go to the model.

    Args:
        records: the calls that the guard allowed.
        options: the behaviour of the guardrail.
    """

    def __init__(self, records: CallRecords, options: GuardrailOptions) -> None:
        self._records, self._options = records, options
        self._tools = ComparedTools(records.guard)

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
        return GatewayExchange(api, conversation, {tool.name: tool for tool in tools}, history, seen)

    def _confirm(self, conversation: str, history: ShownHistory) -> list[str] | None:
        """Compares a client's messages with what the guard allowed, and records new results.

        Returns:
            The ids of all results, if the guard does not know one; otherwise None.

        Raises:
            InputError: they show something else.
        """
        unknown = False
        for call_id, outcome in history.results.items():
            settle = lambda one=call_id, of=outcome: self._records.settle(conversation, one, of)  # noqa: E731 - short
            unknown = self._unless_unknown(settle) or unknown
        for call in history.calls:
            unknown = self._unless_unknown(lambda one=call: self._check(conversation, one)) or unknown
        if history.new_turn:
            self._records.guard.turn(conversation)
        return list(history.results) if unknown else None

    def _check(self, conversation: str, call: Any) -> None:
        args = call.args if isinstance(call.args, Mapping) else read_object(str(call.args or ""), call.name)
        self._records.check_shown(conversation, call.id, call.name, args)

    def _unless_unknown(self, work: Any) -> bool:
        """Returns whether work failed since a call is unknown, if such calls are allowed.

        Raises:
            InputError: it failed for another reason, or unknown calls are refused.
        """
        try:
            work()
        except UnknownCallError as error:
            if self._options.unknown_calls != "judge":
                raise InputError(
                    f"{error}; begin a new conversation, keep conversations in a ledger that all processes of the proxy "
                    "share, or set 'unknown_calls: judge' in the guardrail's options"
                ) from None
            return True
        return False

    def _unnamed(self) -> str:
        return (
            "this request names no conversation, so its tool calls cannot be judged: send the header "
            f"{self._options.conversation!r}, 'litellm_session_id', or 'session_id' in the metadata, with one id for all "
            "requests of a conversation"
        )
