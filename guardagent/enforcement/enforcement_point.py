"""The interface of a guard to its adapters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from guardagent._support.execution import Procedure, adrive, drive
from guardagent.enforcement.approval import ApprovalRequest, Approver
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.host_usage import ModelUsage
from guardagent.enforcement.lifecycle import CallLifecycle
from guardagent.enforcement.names import AcceptedTools, Aliases, Coverage, ToolSpec
from guardagent.types import Verdict


class EnforcementPoint(ABC):
    """Stands between an agent and its tools. `ToolGuard` decides on each call itself; `RemoteGuard` asks a server.

    Attributes:
        lifecycle: the phases of its calls.
        names: maps the host's names of tools to those of the rules.
        accepted: the accepted tools of servers.
        coverage: the last comparison of tools and rules.
        approver: decides on escalated calls, in place of the host's own approval mechanism; None if there is none.
    """

    lifecycle: CallLifecycle
    names: Aliases
    accepted: AcceptedTools
    coverage: Coverage
    approver: Approver | None

    # --- attaching

    @abstractmethod
    def attach(self, tools: Iterable[ToolSpec]) -> Coverage:
        """Compares the agent's tools with the rules; adapters call it again whenever the tools change.

        Raises:
            InputError: a rule names a tool that is probably a misspelling of one of these, or two have one name.
        """

    def update_server_tools(self, server: str, tools: Iterable[ToolSpec]) -> list[ToolSpec]:
        """Updates the complete tool list of a server; adapters call it for each list, before `attach`.

        Returns:
            The tools that may be called. A tool that was added or changed is denied until it is accepted.
        """
        return self.accepted.update(server, tools)

    def accept(self, tools: Iterable[ToolSpec]) -> None:
        """Accepts tools of a server that the operator has reviewed."""
        self.accepted.accept(tools)

    @property
    @abstractmethod
    def reloadable(self) -> bool:
        """Whether new conversations may get other rules."""

    @property
    @abstractmethod
    def may_escalate(self) -> bool:
        """Whether the rules of new conversations can escalate a call."""

    @property
    def reads_usage(self) -> bool:
        """Whether rules read what models have used, as far as this process knows the rules."""
        return False

    def may_call(self, tool: str, conversation: str | None) -> bool:  # noqa: ARG002 - for guards with rules
        """Whether a call of a tool can ever be allowed in a conversation, as far as is known without its arguments."""
        return True

    # --- one call

    def before(self, call: HostCall) -> Verdict:
        """Decides on a call before it runs. Never raises: an error is a denial.

        An allowed call is in flight: call `use`, run the tool with the returned arguments, and then call `after`.
        """
        return drive(self.lifecycle.before(call))

    async def abefore(self, call: HostCall) -> Verdict:
        """Decides on a call before it runs, without blocking the event loop. Never raises."""
        return await adrive(self.lifecycle.before(call))

    def preview(self, call: HostCall) -> Verdict:
        """Returns the verdict that `before` would give, for hosts that request approval early. Never raises.

        The call is not recorded and gets no permit; `before` judges it again at the tool. Only an escalation is
        recorded, so that `resolve` can answer it.
        """
        return drive(self.lifecycle.preview(call))

    async def apreview(self, call: HostCall) -> Verdict:
        """Returns the verdict that `before` would give, without blocking the event loop. Never raises."""
        return await adrive(self.lifecycle.preview(call))

    def refuse(self, call: HostCall, problem: str) -> Verdict:
        """Denies a call that cannot be judged as it stands, such as one of an unknown tool. Never raises.

        Args:
            call: the known parts of the call.
            problem: what is wrong, for the model.
        """
        return drive(self.lifecycle.refuse(call, problem))

    async def arefuse(self, call: HostCall, problem: str) -> Verdict:
        """Denies a call that cannot be judged, without blocking the event loop. Never raises."""
        return await adrive(self.lifecycle.refuse(call, problem))

    def use(self, call: HostCall, args: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Uses the permit of a call, just before it runs.

        Args:
            call: an allowed call.
            args: the arguments that the tool is about to get, if they should be compared with the judged ones.

        Returns:
            The judged arguments.

        Raises:
            InputError: there is no permit, or it was used, has expired or is for other arguments.
        """
        return drive(self.lifecycle.use(call, args))

    async def ause(self, call: HostCall, args: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Uses the permit without blocking the event loop: another check of the conversation may be running."""
        return await adrive(self.lifecycle.use(call, args))

    def after(self, call: HostCall, outcome: Outcome) -> None:
        """Records the outcome of a call. Never raises: a call whose outcome cannot be recorded stays in flight."""
        drive(self.lifecycle.after(call, outcome))

    async def aafter(self, call: HostCall, outcome: Outcome) -> None:
        """Records the outcome of a call, without blocking the event loop. Never raises."""
        await adrive(self.lifecycle.after(call, outcome))

    def withdraw(self, call: HostCall, why: str, *, used: bool = False) -> None:
        """Withdraws an allowed call that never runs. Never raises; on an error the call stays in flight.

        Args:
            call: an allowed call.
            why: the reason, for the log.
            used: whether the caller has used the permit.
        """
        drive(self.lifecycle.withdraw(call, why, used=used))

    async def awithdraw(self, call: HostCall, why: str, *, used: bool = False) -> None:
        """Withdraws an allowed call that never runs, without blocking the event loop. Never raises."""
        await adrive(self.lifecycle.withdraw(call, why, used=used))

    # --- approvals

    def request(self, call: HostCall, verdict: Verdict) -> ApprovalRequest:
        """Returns the approval request of an escalated call, for the host's own approval mechanism."""
        return self.lifecycle.request(call, verdict)

    def resolve(self, call: HostCall, answer: Any) -> Verdict:
        """Judges an escalated call with a reviewer's answer. Never raises.

        An approval covers this call once, and lifts only the rules that escalated it. An edited call
        (`with_edits(call, approval)`) is judged again, and may be escalated again.

        `before` and `preview` record an approval request in the ledger. A host that repeats a call after an answer
        must call `resolve` and not `before`; otherwise the repetition itself records the request that the answer needs.

        Args:
            call: as it was shown.
            answer: an `Approval`, or a value that `Approval.read` accepts. An approval or edit names the request's
                `digest` as `of`. A host that itself records which call was shown fills in the digest of this call.
        """
        return drive(self.lifecycle.resolve(call, answer))

    async def aresolve(self, call: HostCall, answer: Any) -> Verdict:
        """Judges an escalated call with a reviewer's answer, without blocking the event loop. Never raises."""
        return await adrive(self.lifecycle.resolve(call, answer))

    async def arecord_host_request(self, call: HostCall) -> Verdict:
        """Records an approval request that the host makes by its own rule, without an escalation. Never raises.

        `resolve` answers the request once; this lifts no rule.
        """
        return await adrive(self.lifecycle.record_host_request(call))

    @abstractmethod
    def has_request(self, call: HostCall) -> bool:
        """Whether this call has an approval request, answered or not."""

    # --- a conversation

    @abstractmethod
    def notes(self, conversation: str) -> dict[Any, Any]:
        """Returns the adapter's notes on a conversation, which last as long as the conversation.

        Raises:
            InputError: the id of the conversation is invalid.
        """

    def spent(
        self,
        conversation: str,
        *,
        tokens: int | None = None,
        cost: float | Decimal | None = None,
        of: str | None = None,
        whole: bool = False,
    ) -> None:
        """Notes what a model has used, for `usage.tokens` and `usage.cost` of later calls.

        Args:
            conversation: the id of the conversation.
            tokens: the tokens, of the prompt and the answer; None if the host does not know.
            cost: the cost in dollars; None if the host does not know.
            of: the name of the response or run; a later note of the same name replaces this one.
            whole: whether the host also notes the responses before this process.

        Raises:
            InputError: the id of the conversation is invalid, or an amount is not a number from 0.
        """
        usage: ModelUsage = self.notes(conversation).setdefault(ModelUsage, ModelUsage())
        usage.is_whole = usage.is_whole or whole
        usage.note(of, tokens=tokens, cost=cost)

    @abstractmethod
    def turn(self, conversation: str) -> None:
        """Resets the replan counter after a new user message."""

    @abstractmethod
    def end(self, conversation: str) -> Verdict:
        """Ends a conversation and forgets it. Returns a verdict with the pending obligations.

        Raises:
            InputError: no conversation with this id has begun.
        """

    @property
    @abstractmethod
    def judges_answers(self) -> bool:
        """Whether final answers are judged: by a guard of answers, or by rules that speak of them.

        These may be rules of any conversation: of an earlier version of the policy, or for one task only.
        """

    def answer(
        self, conversation: str, agent_input: str, output: str, facts: Mapping[str, Any] | None = None
    ) -> Verdict:
        """Judges an agent's final answer before the user sees it. Never raises.

        The guard of answers judges it first, then the rules that speak of `answer(text)`. If it may pass, it is
        recorded as a step of the conversation. If neither exists, it is allowed. A denial by rules does not quote the
        answer, since the user reads it; the log has the whole verdict.
        """
        return drive(self._answered(conversation, agent_input, output, facts))

    async def aanswer(
        self, conversation: str, agent_input: str, output: str, facts: Mapping[str, Any] | None = None
    ) -> Verdict:
        """Judges an agent's final answer, without blocking the event loop. Never raises."""
        return await adrive(self._answered(conversation, agent_input, output, facts))

    @abstractmethod
    def _answered(
        self, conversation: str, agent_input: str, output: str, facts: Mapping[str, Any] | None
    ) -> Procedure[Verdict]:
        """Judges a final answer. Never raises."""
