"""Hand-offs: judged as the event `handoff(to=...)`."""

from __future__ import annotations

import copy
import json
from contextvars import ContextVar
from functools import partial
from typing import Any

from agents import Agent, Handoff, handoff

from guardagent._support.execution import Operation, adrive
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.schema import read_object, validate_arguments
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.openai_agents.adapter.attachment_base import BaseAttachment
from guardagent.frameworks.openai_agents.adapter.runs import DenialText, RunHalted, denial_text
from guardagent.types import Verdict

# The SDK asks for the message right after the hand-off, in the same task.
_denial: ContextVar[DenialText | None] = ContextVar("guardagent_handoff_denial", default=None)


def is_guarded_handoff(item: Any) -> bool:
    return isinstance(getattr(item, "on_invoke_handoff", None), _GuardedHandoff)


def target_of(item: Any) -> Any:
    """Returns the target agent of a hand-off; None if only running it determines the target."""
    if isinstance(item, Agent):
        return item
    reference = item._agent_ref  # noqa: SLF001 - there is no public way to it
    return reference() if reference is not None else None


def guarded_handoff(attachment: BaseAttachment, item: Any) -> Any:
    """The guarded hand-off."""
    before = handoff(item) if isinstance(item, Agent) else item
    created = copy.copy(before)
    created.on_invoke_handoff = _GuardedHandoff(attachment, before)
    created.get_transfer_message = lambda agent: _denial.get() or before.get_transfer_message(agent)
    if before.input_filter is not None:
        created.input_filter = lambda data: data if _denial.get() else before.input_filter(data)
    return created


class _GuardedHandoff:
    """`Handoff.on_invoke_handoff`. The SDK has no way to refuse a hand-off: a denied one stays with its agent."""

    def __init__(self, attachment: BaseAttachment, before: Handoff[Any, Any]) -> None:
        self._attachment, self._before = attachment, before

    async def __call__(self, context: Any, arguments: str | None = None) -> Any:
        _denial.set(None)
        schema = self._before.input_json_schema
        try:
            model_input = read_object(arguments or "", self._before.tool_name) if schema.get("properties") else {}
            args = validate_arguments(self._before.tool_name, model_input, schema) if model_input else {}
        except InputError as error:
            unread = self._attachment.call("handoff", {"to": self._before.agent_name}, context, action="handoff")
            return self._stay(context, await self._attachment.guard.arefuse(unread, str(error)))
        shown = {"to": self._before.agent_name, **({"input": args} if args else {})}
        call = self._attachment.call("handoff", shown, context, action="handoff")
        life = self._attachment.guard.lifecycle
        try:
            call, judged = await adrive(life.authorize(call, self._attachment.judge(call)))
        except ToolDenied as denial:
            return self._stay(context, denial.verdict)
        work = partial(self._hand_off, context, call, judged.get("input"))
        return await adrive(life.execute(call, Operation(work, work), lambda agent: Outcome({"assistant": agent.name})))

    async def _hand_off(self, context: Any, call: HostCall, model_input: Any) -> Any:
        agent = await self._before.on_invoke_handoff(context, json.dumps(model_input or {}))
        _require_target(agent, call.args["to"])
        self._attachment.guard_agent(agent)
        return agent

    def _stay(self, context: Any, verdict: Verdict) -> Any:
        denial = denial_text("handoff", verdict)
        agent = self._attachment.run_of(context).agent
        if denial.final is not None or agent is None:
            raise RunHalted("handoff", verdict)  # a hand-off cannot end a run with an answer
        _denial.set(denial)
        return agent


def _require_target(agent: Any, judged: str) -> None:
    """Raises InputError if a hand-off leads to another agent than the judged one."""
    if agent.name != judged:
        raise InputError(f"the hand-off to {judged!r} leads to {agent.name!r}; expected what was judged")
