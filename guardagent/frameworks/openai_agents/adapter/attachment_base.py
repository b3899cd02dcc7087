"""The state that the hooks of a guarded agent share: its guard, the current run, and pending approvals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from guardagent._support.execution import Procedure
from guardagent.enforcement import EnforcementPoint
from guardagent.enforcement.calls import HostCall
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.enforcement.schema import read_object
from guardagent.frameworks.openai_agents.adapter.runs import (
    UNNAMED,
    AgentRun,
    Runs,
    chat,
    conversation_of,
    result_ids,
    scope,
)
from guardagent.types import Verdict

_MOST_PENDING = 1000


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A call that waits for approval.

    Attributes:
        call: the call that is shown.
        verdict: the escalation.
        params: the arguments as the model wrote them.
    """

    call: HostCall
    verdict: Verdict
    params: Mapping[str, Any]


class BaseAttachment(ABC):
    """A guard at its agents.

    Attributes:
        guard: decides.
    """

    def __init__(self, guard: EnforcementPoint, named: Callable[[Any], str | None] | None) -> None:
        self.guard, self._find_conversation = guard, named
        self._runs = Runs()
        self._pending: dict[str, PendingApproval] = {}
        self._has_escalated = False

    @property
    def escalates(self) -> bool:
        """Whether the SDK may have to ask a person: then each call is judged once more, ahead of its tool.

        A conversation may run under an earlier version of the rules, so this never becomes false again.
        """
        self._has_escalated = self._has_escalated or (self.guard.approver is None and self.guard.may_escalate)
        return self._has_escalated

    @property
    def may_ask(self) -> bool:
        """Whether the SDK may have to ask a person now, or after the rules were reloaded."""
        return self.escalates or (self.guard.approver is None and self.guard.reloadable)

    @abstractmethod
    def guard_agent(self, agent: Any) -> None:
        """Guards an agent that appears later, and the agents that it reaches."""

    # --- a run

    def run_of(self, context: Any) -> AgentRun:
        return self._runs.of(context)

    def conversation_of(self, context: Any) -> str | None:
        return conversation_of(context, self._find_conversation)

    def notes(self, context: Any) -> dict[Any, Any]:
        """Returns the notes of the conversation; empty notes if there is none."""
        name = self.conversation_of(context)
        return self.guard.notes(name) if name else {}

    def propose(self, context: Any, ids: Collection[str]) -> set[str]:
        """Notes calls that a model proposes. Returns all proposed calls of the conversation."""
        run = self.run_of(context)
        run.proposed.update(ids)
        known: set[str] = self.notes(context).setdefault("proposed", set())
        known.update(run.proposed)  # of before its conversation had a name, too
        return known

    def call(self, tool: str, args: Mapping[str, Any], context: Any, **options: Any) -> HostCall:
        """A call that is about to run in this context."""
        run, conversation = self.run_of(context), self.conversation_of(context)
        self._report_turn(run, conversation)
        agent = getattr(context, "agent", None) or run.agent
        around, shown = scope(), list(context.turn_input) or run.input
        messages = None if around is not None and around.inside else chat(shown)  # inside, the user is a model
        proposed = self.propose(context, ())
        seen = [one for one in result_ids(shown) if one not in proposed]
        options = {"step": f"{id(run)}.{run.step}", "agent": getattr(agent, "name", None), **options}
        return HostCall(tool, args, conversation, messages=messages, seen=seen, **options)

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call. The verdict explains the configuration if the call has no conversation."""
        verdict, call = yield from self.guard.lifecycle.judge(call)
        return verdict if call.conversation else replace(verdict, errors=(*verdict.errors, UNNAMED)), call

    def _report_turn(self, run: AgentRun, conversation: str | None) -> None:
        around = scope()
        if not run.turn_reported and conversation and not (around is not None and around.inside):
            self.guard.turn(conversation)
        run.turn_reported = run.turn_reported or bool(conversation)

    # --- a person

    def ask(self, call: HostCall, verdict: Verdict, params: Mapping[str, Any]) -> None:
        """Stores a call that waits for approval."""
        self._pending[call.digest] = PendingApproval(call, verdict, params)
        if len(self._pending) > _MOST_PENDING:  # nobody answered the oldest; the stored state has it still
            del self._pending[next(iter(self._pending))]

    def pending_approval(self, item: Any) -> PendingApproval | None:
        """Returns the pending approval of an interruption; None if it is unknown here or ambiguous."""
        name, params = getattr(item.agent, "name", None), read_object(item.arguments or "", item.tool_name or "")
        about = (item.call_id, name, params)
        found = [one for one in self._pending.values() if (one.call.id, one.call.agent, one.params) == about]
        return found[0] if len(found) == 1 else None

    def drop_pending(self, call: HostCall) -> None:
        """Removes the pending approval of a call."""
        self._pending.pop(call.digest, None)
