"""Judges a response of the model: its tool calls, or its answer."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from guardagent.enforcement import HostCall
from guardagent.enforcement.schema import read_object
from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import InputError
from guardagent.frameworks.litellm.adapter.conversations import CallRecords
from guardagent.frameworks.litellm.adapter.exchange import GatewayExchange
from guardagent.frameworks.litellm.adapter.formats.model_api import GatewayCall, ModelMessage, Rewriting
from guardagent.frameworks.litellm.adapter.tools import read_arguments
from guardagent.types import Decision, Verdict, sorted_json, thaw

_WHY = "the response with this call does not reach the client"
_log = logging.getLogger("guardagent")


@dataclass(slots=True)
class JudgedMessage:
    """A response with its verdicts.

    Attributes:
        message: the response.
        changed: whether the client gets another one.
        verdicts: the place of each call -> its verdict.
        allowed: the place of each allowed call -> the call.
        withheld: the text in place of the answer; empty if it may pass.
    """

    message: ModelMessage
    changed: bool = False
    verdicts: dict[int, Verdict] = field(default_factory=dict)
    allowed: dict[int, HostCall] = field(default_factory=dict)
    withheld: str = ""

    @property
    def denials(self) -> dict[int, str]:
        """The place of each denied call -> the reason and the remedy."""
        return {at: verdict.feedback() for at, verdict in self.verdicts.items() if verdict.label}

    @property
    def may_replan(self) -> bool:
        """Whether all calls were denied, and the model may try others."""
        verdicts = self.verdicts.values()
        final = any(one.decision is Decision.HALT or gave_up(one) for one in verdicts)
        return bool(verdicts) and not self.allowed and not final

    def rewriting(self) -> Rewriting:
        """Returns the changes of the response."""
        calls = {at: GatewayCall(one.id, one.tool, thaw(one.args)) for at, one in self.allowed.items()}
        return Rewriting(calls, self.withheld or "\n\n".join([*self.denials.values(), *self._last_words()]))

    def _last_words(self) -> list[str]:
        return [one.reasons[-1] for one in self.verdicts.values() if gave_up(one)][:1]


class ResponseJudge:
    """Judges responses.

    Args:
        records: has the guard.
    """

    def __init__(self, records: CallRecords) -> None:
        self._records = records

    async def judge(self, exchange: GatewayExchange, message: ModelMessage) -> JudgedMessage:
        """Judges the calls of a response, each with the earlier ones in flight; of one without calls, the answer."""
        judged = JudgedMessage(message)
        if not message.calls:
            await self._judge_answers(exchange, judged)
            return judged
        try:
            await self._judge_calls(exchange, judged)
        except BaseException:
            await self.withdraw(judged)
            raise
        if any(one.decision is Decision.HALT for one in judged.verdicts.values()):
            await self.withdraw(judged)
        return judged

    async def withdraw(self, judged: JudgedMessage) -> None:
        """Withdraws the allowed calls of a response that no client gets."""
        while judged.allowed:
            _, call = judged.allowed.popitem()
            judged.changed = True
            try:
                await self._records.withdraw(call, _WHY)
            except Exception:  # noqa: BLE001 - it stays in flight, which allows nothing
                _log.exception("call %r stays in flight", call.id)

    async def _judge_calls(self, exchange: GatewayExchange, judged: JudgedMessage) -> None:
        step, ids = secrets.token_hex(8), set[str]()
        for at, proposed in enumerate(judged.message.calls):
            call, problem = _host_call(exchange, proposed, step, self._records.new_claim())
            if call.id in ids:
                problem = f"two calls of one message have the id {call.id!r}; expected unique ids"
            ids.add(call.id)
            if problem is not None:
                judged.verdicts[at] = await self._records.guard.arefuse(call, problem)
                continue
            verdict, allowed = await self._records.judge(call)
            judged.verdicts[at] = verdict
            if verdict.label == 0:
                judged.allowed[at] = allowed
        judged.changed = len(judged.allowed) < len(judged.message.calls) or any(
            not _is_same(judged.message.calls[at], one) for at, one in judged.allowed.items()
        )

    async def _judge_answers(self, exchange: GatewayExchange, judged: JudgedMessage) -> None:
        guard = self._records.guard
        if not guard.judges_answers:
            return
        user = exchange.history.user if exchange.history is not None else ""
        for text in judged.message.texts:
            verdict = await guard.aanswer(exchange.conversation or "", user, text)
            if verdict.label:
                judged.changed, judged.withheld = True, f"The answer is withheld.\n{verdict.feedback()}"
                return


def _host_call(
    exchange: GatewayExchange, proposed: GatewayCall, step: str, claim: str | None
) -> tuple[HostCall, str | None]:
    """Returns a proposed call, and why it cannot be judged, if it cannot."""
    name = proposed.name
    validate = partial(read_arguments, name, tools=exchange.tools)
    messages = exchange.history.messages if exchange.history is not None else None
    about: dict[str, Any] = {"step": step, "claim": claim, "messages": messages, "seen": exchange.seen}
    about["id"] = proposed.id or f"call_{secrets.token_hex(12)}"
    try:
        args, problem = validate(proposed.args), None
    except InputError as error:
        args, problem = {}, str(error)
    return HostCall(name, args, exchange.conversation, validate_edit=validate, **about), problem


def _is_same(proposed: GatewayCall, call: HostCall) -> bool:
    """Whether a client reads the judged call in the model's own response."""
    args = proposed.args if isinstance(proposed.args, Mapping) else read_object(proposed.args or "", proposed.name)
    return proposed.id == call.id and sorted_json(args) == sorted_json(call.args)
