"""The interface of a guard to its adapters, and the lifecycle of a call in any host: before, approve, use, run, after.

Each phase is a generator of steps, which `drive` runs synchronously and `adrive` asynchronously. A phase yields only
where it has to wait.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from guardagent._support.execution import Operation, Procedure, adrive, drive
from guardagent.enforcement.approval import Approval, ApprovalRequest, Approver, aask, ask, with_edits
from guardagent.enforcement.audit_records import span
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.names import AcceptedTools, Aliases, Coverage, ToolSpec
from guardagent.errors import InputError, ToolDenied
from guardagent.types import Decision, Verdict, unchecked_verdict

MAX_REQUESTS = 3  # approval requests per call: an edited call may need approval again

Arguments = Mapping[str, Any]
ReadOutcome = Callable[[Any], Outcome]
JudgedCall = tuple[Verdict, HostCall]
"""A verdict, and the call with the reviewer's edits."""


class PermitVoidError(ToolDenied):
    """The permit of an allowed call is void, so that it may not run."""


class CallLifecycle(ABC):
    """The phases of a guard's calls. A subclass decides on them and records them.

    Attributes:
        approver: called by the guard itself; None if the host handles approvals.
        ledger: the name of the ledger of approval requests.
    """

    __slots__ = ()
    approver: Approver | None
    ledger: str

    def run(
        self,
        call: HostCall,
        execute: Callable[[Arguments], Any],
        outcome: ReadOutcome = Outcome,
        judged: Procedure[JudgedCall] | None = None,
    ) -> Procedure[Any]:
        """Takes a call from its proposal to its outcome.

        Args:
            call: the proposed call.
            execute: runs the tool with the judged arguments; `adrive` awaits its result.
            outcome: see `execute`.
            judged: see `authorize`.

        Raises:
            ToolDenied: the call may not run; carries the verdict.
        """
        call, args = yield from self.authorize(call, judged)
        work = partial(execute, args)
        return (yield from self.execute(call, Operation(work, work), outcome))

    def authorize(
        self, call: HostCall, judged: Procedure[JudgedCall] | None = None
    ) -> Procedure[tuple[HostCall, dict[str, Any]]]:
        """Judges a call and uses its permit. Returns the call as it may run, and the judged arguments.

        Args:
            call: the proposed call.
            judged: gives the verdict in hosts that have their own approval mechanism.

        Raises:
            ToolDenied: the call may not run; PermitVoidError if it was allowed.
        """
        verdict, call = yield from (self.judge(call) if judged is None else judged)
        if verdict.label:
            raise ToolDenied(call.tool, verdict)
        try:
            return call, (yield from self.use(call))
        except InputError as error:
            raise PermitVoidError(call.tool, unchecked_verdict(str(error), checked_by="policy")) from None

    def execute(
        self,
        call: HostCall,
        work: Operation,
        outcome: Callable[[Any], Outcome | None] = Outcome,
        failure: Callable[[BaseException], Outcome | None] = Outcome.of_error,
    ) -> Procedure[Any]:
        """Runs a tool, records its outcome and returns its output.

        Errors of the tool pass through: an Exception is recorded as a failure, and an interrupted call stays in
        flight.

        Args:
            call: a call whose permit is used.
            work: runs the tool.
            outcome: maps the tool's result to the call's outcome; None if the call has not ended.
            failure: maps the tool's error to the call's outcome; None if the call has not ended.
        """
        try:
            output = yield work
        except BaseException as error:
            if (failed := failure(error)) is not None:
                recorded = self.after(call, failed)
                if isinstance(error, Exception):
                    yield from recorded
                else:
                    drive(recorded)  # not awaited: the task is cancelled
            raise
        if (ended := outcome(output)) is not None:
            yield from self.after(call, ended)
        return output

    # --- before

    def before(self, call: HostCall) -> Procedure[Verdict]:
        """See `ToolGuard.before`."""
        verdict, _ = yield from self.judge(call)
        return verdict

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call and asks the guard's own approver. Returns the verdict and the edited call."""
        with span(call) or nullcontext() as check_span:
            verdict = yield from self.decide(call)
            for _ in range(MAX_REQUESTS):
                if verdict.decision is not Decision.ESCALATE or self.approver is None:
                    break
                verdict, call = yield from self.ask_approver(call, verdict, self.approver)
            if check_span is not None:
                check_span.set_verdict(verdict)
        return verdict, call

    def ask_approver(self, call: HostCall, verdict: Verdict, approver: Approver) -> Procedure[JudgedCall]:
        """Asks the guard's approver about an escalated call, and judges the call with the answer."""
        request = self.request(call, verdict)
        approval = yield Operation(partial(ask, approver, request), partial(aask, approver, request))
        return (yield from self.apply_answer(call, approval))

    def apply_answer(self, call: HostCall, approval: Approval) -> Procedure[JudgedCall]:
        """Judges a call with a reviewer's answer. Returns the verdict and the call with the reviewer's edits."""
        approval = replace(approval, of=call.digest).validated(call.validate_edit)
        return (yield from self.resolve_approval(call, approval)), with_edits(call, approval)

    # --- approve

    def request(self, call: HostCall, verdict: Verdict) -> ApprovalRequest:
        """See `ToolGuard.request`."""
        digest = f"{call.digest}.{self.ledger}"
        return ApprovalRequest(call.tool, call.args, verdict, str(call.conversation), call.id, call.agent, digest)

    def resolve(self, call: HostCall, answer: Any) -> Procedure[Verdict]:
        """See `ToolGuard.resolve`."""
        return self.resolve_approval(call, Approval.read(answer).validated(call.validate_edit))

    # --- a final answer

    def answer(self, call: HostCall) -> Procedure[Verdict]:
        """Judges a final answer as a step, and records it if it may pass. A reviewer cannot edit it."""
        verdict, judged = yield from self.judge(call)
        if verdict.label:
            return verdict
        if judged.args != call.args:
            yield from self.withdraw(judged, "a reviewer edited the answer")
            return unchecked_verdict(
                "a reviewer edited the answer; expected 'approve' or 'reject'", checked_by="policy"
            )
        try:
            yield from self.use(judged)
        except InputError as error:
            return unchecked_verdict(str(error), checked_by="policy")
        yield from self.after(judged, Outcome())
        return verdict

    # --- implemented where the call is decided

    @abstractmethod
    def decide(self, call: HostCall) -> Procedure[Verdict]:
        """Decides on a call by the rules, and records the verdict. Never raises."""

    @abstractmethod
    def preview(self, call: HostCall) -> Procedure[Verdict]:
        """See `ToolGuard.preview`."""

    @abstractmethod
    def refuse(self, call: HostCall, problem: str) -> Procedure[Verdict]:
        """See `ToolGuard.refuse`."""

    @abstractmethod
    def resolve_approval(self, call: HostCall, approval: Approval) -> Procedure[Verdict]:
        """Judges a call with an approval whose edited arguments fit the tool. Never raises."""

    @abstractmethod
    def record_host_request(self, call: HostCall) -> Procedure[Verdict]:
        """See `ToolGuard.arecord_host_request`."""

    @abstractmethod
    def use(self, call: HostCall, args: Arguments | None = None) -> Procedure[dict[str, Any]]:
        """See `ToolGuard.use`. May wait for another running check of the conversation."""

    @abstractmethod
    def after(self, call: HostCall, outcome: Outcome) -> Procedure[None]:
        """See `ToolGuard.after`."""

    @abstractmethod
    def withdraw(self, call: HostCall, why: str, *, used: bool = False) -> Procedure[None]:
        """See `ToolGuard.withdraw`."""


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
        """Accepts tools of a server as the operator has reviewed them."""
        self.accepted.accept(tools)

    @property
    @abstractmethod
    def reloadable(self) -> bool:
        """Whether new conversations may get other rules."""

    @property
    @abstractmethod
    def may_escalate(self) -> bool:
        """Whether the rules of new conversations can escalate a call."""

    # --- one call

    def before(self, call: HostCall) -> Verdict:
        """Decides on a call before it runs. Never raises: an error is a denial.

        An allowed call is in flight: call `use`, run the tool with the returned arguments, and then call `after`.
        """
        return drive(self.lifecycle.before(call))

    async def abefore(self, call: HostCall) -> Verdict:
        """As `before`, without blocking the event loop."""
        return await adrive(self.lifecycle.before(call))

    def preview(self, call: HostCall) -> Verdict:
        """Returns the verdict that `before` would give, for hosts that request approval early. Never raises.

        The call is not recorded and gets no permit; `before` judges it again at the tool. Only an escalation is
        recorded, so that `resolve` can answer it.
        """
        return drive(self.lifecycle.preview(call))

    async def apreview(self, call: HostCall) -> Verdict:
        """As `preview`, without blocking the event loop."""
        return await adrive(self.lifecycle.preview(call))

    def refuse(self, call: HostCall, problem: str) -> Verdict:
        """Denies a call that cannot be judged as it stands, such as one of an unknown tool. Never raises.

        Args:
            call: the known parts of the call.
            problem: what is wrong, for the model.
        """
        return drive(self.lifecycle.refuse(call, problem))

    async def arefuse(self, call: HostCall, problem: str) -> Verdict:
        """As `refuse`, without blocking the event loop."""
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
        """As `use`, without blocking the event loop: another check of the conversation may be running."""
        return await adrive(self.lifecycle.use(call, args))

    def after(self, call: HostCall, outcome: Outcome) -> None:
        """Records the outcome of a call. Never raises: a call whose outcome cannot be recorded stays in flight."""
        drive(self.lifecycle.after(call, outcome))

    async def aafter(self, call: HostCall, outcome: Outcome) -> None:
        """As `after`, without blocking the event loop."""
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
        """As `withdraw`, without blocking the event loop."""
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
        """As `resolve`, without blocking the event loop."""
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

    @abstractmethod
    def turn(self, conversation: str) -> None:
        """Resets the replans after a new user message."""

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
        """As `answer`, without blocking the event loop."""
        return await adrive(self._answered(conversation, agent_input, output, facts))

    @abstractmethod
    def _answered(
        self, conversation: str, agent_input: str, output: str, facts: Mapping[str, Any] | None
    ) -> Procedure[Verdict]:
        """Judges a final answer. Never raises."""
