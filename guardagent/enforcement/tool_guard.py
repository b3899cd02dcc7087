"""The guard of an agent's tools: it decides, whatever the host; an adapter translates."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from guardagent._support.fold import combine, denied_on_crash
from guardagent.enforcement.accepted import Accepted
from guardagent.enforcement.approval import Approval, ApprovalRequest, Approver
from guardagent.enforcement.asking import aask, ask
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.conversations import Conversation, Conversations, NotBegunError, Waiting
from guardagent.enforcement.deadline import DeadlinePool, waited
from guardagent.enforcement.ledger import Ledger, MemoryLedger, Question
from guardagent.enforcement.ledger.protocol import REJECTED
from guardagent.enforcement.names import Coverage, Names, ToolSpec
from guardagent.enforcement.options import check_options
from guardagent.enforcement.schema import unchecked_patterns
from guardagent.enforcement.telemetry import span
from guardagent.enforcement.tools_lock import read_tools_lock
from guardagent.enforcement.writing import Log, spooled, write_approval, write_outcome, write_verdict, write_withdrawal
from guardagent.errors import GuardError, InputError, SessionBusyError, in_words
from guardagent.policy.evaluation.findings import Call
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.session.session import Session
from guardagent.session.shared_history import MovedError
from guardagent.types import EMPTY, Decision, Verdict, unchecked

if TYPE_CHECKING:
    from guardagent.enforcement.ledger.protocol import ConversationJournal
    from guardagent.guard import GuardAgent
    from guardagent.policy.evaluation.findings import Status

MAX_REPLANS = 3
MAX_ASKED = 3  # a person who edits a call that needs approval again is asked again, so often
MAX_RACES = 10  # how often a call is judged where others keep coming between the verdict and its place
DEADLINE_SECONDS = 10.0

_NEVER_SAW = (
    "the host's messages show call {!r}, which this guard never saw, and a rule about {} looks at earlier calls; "
    "keep conversations with ToolGuard(ledger=SqliteLedger(...)), or restore this one with guard.restore(snapshot, key)"
)
_NAMES_NO_CALL = (
    "the answer names no call that was shown: it is about another call than this {}, or about none; "
    'answer with {{"choice": "{}", "of": ...}}, where `of` is the digest of the request that was shown'
)
_ASKED_ELSEWHERE = (
    "the approval of {} was asked for by another guard, which may have used it; have all processes share one "
    'ToolGuard(ledger=SqliteLedger(...)), or say approvals="this host\'s"'
)
_BUSY = "another check of the conversation is under way; the call may not run"
_log = logging.getLogger("guardagent")

Work = Callable[[Waiting | None], Verdict]


class ToolGuard:
    """Decides on each call of an agent's tools, and keeps what happened, per conversation.

    Args:
        policies: the rules, or their file.
        state: what `state(...)` looks at: a live mapping, or a callable that gives it for a conversation's id.
        facts: what the host knows: a mapping, or a callable that gives it for a call (`HostCall`).
        aliases: a tool's name in the host -> its name in the rules.
        absent: tools that rules name and this agent is known not to have.
        tools_lock: the lock file of the tools that servers may list; without it the first list of each is accepted.
        approver: whom to ask about calls that are escalated, so that none is left to the host's own approval.
        answers: judges the agent's final answers, too.
        log: where every verdict is written, such as `guardagent.log.AuditLog`.
        on_log_error: what a call is whose verdict cannot be written: `deny`, or `warn` in the host's log alone; with
            `spool`, it is written to a local file, and to the log as soon as that can be written again.
        log_spool: that file; else it lies beside the log's own.
        max_replans: how many turns of the model in a row may have calls denied and be followed by another.
        deadline: seconds that a check may take; one that takes longer denies.
        ledger: keeps which approvals were used, and with a `SqliteLedger` also conversations, for all processes that
            share its file, and after a restart. Without one, this guard alone knows, while it lasts.
        approvals: `asked here`: an approval counts where this ledger knows that a person was asked. `this host's`: also
            one that was asked for elsewhere, which each ledger that does not know of it lets through once.

    Raises:
        InputError: an argument is wrong.
    """

    def __init__(
        self,
        policies: Policies | Path | str,
        *,
        state: Mapping[str, Any] | Callable[[str], Any] | None = None,
        facts: Mapping[str, Any] | Callable[[HostCall], Mapping[str, Any]] = EMPTY,
        aliases: Mapping[str, str] = EMPTY,
        absent: Collection[str] = (),
        tools_lock: Path | str | None = None,
        approver: Approver | None = None,
        answers: GuardAgent | None = None,
        log: Log | None = None,
        on_log_error: Literal["deny", "warn", "spool"] = "deny",
        log_spool: Path | str | None = None,
        max_replans: int = MAX_REPLANS,
        deadline: float = DEADLINE_SECONDS,
        ledger: Ledger | None = None,
        approvals: Literal["asked here", "this host's"] = "asked here",
    ) -> None:
        check_options(
            state=state,
            facts=facts,
            aliases=aliases,
            absent=absent,
            tools_lock=tools_lock,
            approver=approver,
            answers=answers,
            log=log,
            on_log_error=on_log_error,
            log_spool=log_spool,
            max_replans=max_replans,
            deadline=deadline,
            ledger=ledger,
            approvals=approvals,
        )
        self.policies = load_policies(policies) if isinstance(policies, str | Path) else policies
        if not callable(getattr(self.policies, "session", None)):
            expected = "a policy file, or what load_policies gave"
            raise InputError(f"policies is a {type(policies).__name__}; expected {expected}")
        self.names = Names(self.policies, aliases, absent)
        self.coverage = Coverage()
        self.accepted = Accepted(None if tools_lock is None else read_tools_lock(tools_lock))
        self.approver, self.answers = approver, answers
        self._state, self._facts = state, facts
        self._log, self._on_log_error = spooled(log, on_log_error, log_spool), on_log_error
        self._digest = getattr(self.policies, "digest", "")
        self._max_replans, self._deadline = max_replans, deadline
        self._ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self._approvals = approvals
        asked = callable(state) or callable(facts) or log is not None or ledger is not None
        self._own = isinstance(self.policies, Policies)  # whose sessions hold nothing up but a check that is under way
        self._inline = self._own and self.policies.quick and not asked
        self._shared = self._ledger.journal("", self._digest) is not None
        if self._shared and not self._own:
            raise InputError("a ledger that keeps histories needs the policies that load_policies gave")
        self._conversations = Conversations(self._begin, lambda name: self._ledger.journal(name, self._digest))
        self._pool = DeadlinePool()

    # --- attaching

    def attach(self, tools: Iterable[ToolSpec]) -> Coverage:
        """Holds the agent's tools against the rules; called by adapters, and again whenever the tools change.

        Raises:
            InputError: a rule names a tool that is probably a misspelling of one of these, or two have one name.
        """
        tools = list(tools)
        self.coverage = self.names.attach(tools)
        for line in (*self.coverage.lines(), *_unchecked(tools)):
            _log.warning("attached: %s", line)
        return self.coverage

    def listed(self, server: str, tools: Iterable[ToolSpec]) -> list[ToolSpec]:
        """A server has listed its tools, all of them; called by adapters whenever it does, before `attach`.

        Returns:
            Those that may be called. What came or changed since the first list is denied until it is accepted.
        """
        return self.accepted.listed(server, tools)

    def accept(self, tools: Iterable[ToolSpec]) -> None:
        """The operator has looked at tools that a server lists, and accepts them as they are now."""
        self.accepted.accept(tools)

    # --- one call

    def before(self, call: HostCall) -> Verdict:
        """Decides on a call before it runs. Never raises: what goes wrong in here is a denial.

        An allowed call is in flight: `use` its permit, run it with the arguments that gives, and say `after`.
        """
        with span(call) as told:
            verdict = self._in_time(call, partial(self._decided, call), Waiting())
            for _ in range(MAX_ASKED):
                if verdict.decision is not Decision.ESCALATE or self.approver is None:
                    break
                said = replace(ask(self.approver, self.request(call, verdict)), of=call.digest).readied(call.ready)
                verdict = self._in_time(call, partial(self._resolved, call, said), Waiting())
                call = applied(call, said)
            told.say(verdict)
        return verdict

    async def abefore(self, call: HostCall) -> Verdict:
        """As `before`, without blocking the event loop."""
        with span(call) as told:
            verdict = await self._ain_time(call, partial(self._decided, call), Waiting())
            for _ in range(MAX_ASKED):
                if verdict.decision is not Decision.ESCALATE or self.approver is None:
                    break
                said = await aask(self.approver, self.request(call, verdict))
                said = replace(said, of=call.digest).readied(call.ready)
                verdict = await self._ain_time(call, partial(self._resolved, call, said), Waiting())
                call = applied(call, said)
            told.say(verdict)
        return verdict

    def preview(self, call: HostCall) -> Verdict:
        """What `before` would say, for hosts that ask a person ahead of the tool. Never raises.

        It takes no place and gives no permit. An escalation is kept, so that `resolve` can answer it; anything else
        leaves no trace, and the call is judged by `before` at the tool.
        """
        return self._in_time(call, partial(self._previewed, call))

    async def apreview(self, call: HostCall) -> Verdict:
        """As `preview`, without blocking the event loop."""
        return await self._ain_time(call, partial(self._previewed, call))

    def refuse(self, call: HostCall, problem: str) -> Verdict:
        """Denies a call that cannot be judged as it stands, such as one of an unknown tool. Never raises.

        Args:
            call: what is known of it.
            problem: what is wrong, for the model.
        """
        return self._in_time(call, partial(self._kept, call, unchecked(problem, checked_by="policy")), Waiting())

    async def arefuse(self, call: HostCall, problem: str) -> Verdict:
        """As `refuse`, without blocking the event loop."""
        work = partial(self._kept, call, unchecked(problem, checked_by="policy"))
        return await self._ain_time(call, work, Waiting())

    def use(self, call: HostCall, args: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Uses the permit of a call, just before it runs.

        Args:
            call: one that was allowed.
            args: what the tool is about to get, where the host wants it compared.

        Returns:
            The arguments that were judged.

        Raises:
            InputError: there is no permit, or it was used, has expired or is for other arguments.
        """
        use = self._use(call, args)
        if self._own:
            return dict(use(timeout=self._deadline))
        try:
            return dict(self._pool.submit(use).result(self._deadline))
        except (TimeoutError, RuntimeError):
            raise InputError(_BUSY) from None

    async def ause(self, call: HostCall, args: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """As `use`, without blocking the event loop: another check of the conversation may be under way."""
        if self._shared:
            use: Callable[..., Mapping[str, Any]] = partial(self.use, call, args)
        else:
            use = self._use(call, args)
            if self._own:
                try:
                    return dict(use(timeout=0))
                except SessionBusyError:
                    use = partial(use, timeout=self._deadline)
        try:
            return dict(await waited(self._pool.submit(use), self._deadline))
        except (TimeoutError, RuntimeError):
            raise InputError(_BUSY) from None

    def after(self, call: HostCall, outcome: Outcome) -> None:
        """Records what came of a call. Never raises: a call whose outcome cannot be recorded stays in flight."""
        _complain(self._in_time(call, partial(self._record, call, outcome)))

    async def aafter(self, call: HostCall, outcome: Outcome) -> None:
        """As `after`, without blocking the event loop."""
        _complain(await self._ain_time(call, partial(self._record, call, outcome)))

    def withdraw(self, call: HostCall, why: str, *, used: bool = False) -> None:
        """A call that was allowed never runs: to the rules it has not been. Never raises: else it stays in flight.

        Args:
            call: one that was allowed.
            why: why it does not run, for the log.
            used: whether its permit was used by whoever says so.
        """
        _complain(self._in_time(call, partial(self._take_back, call, why, used)))

    async def awithdraw(self, call: HostCall, why: str, *, used: bool = False) -> None:
        """As `withdraw`, without blocking the event loop."""
        _complain(await self._ain_time(call, partial(self._take_back, call, why, used)))

    # --- a person

    def request(self, call: HostCall, verdict: Verdict) -> ApprovalRequest:
        """What a person is asked about a call that was escalated: for the host's own approval."""
        digest = f"{call.digest}.{self._ledger.name}"
        return ApprovalRequest(call.tool, call.args, verdict, str(call.conversation), call.id, call.agent, digest)

    def resolve(self, call: HostCall, said: Any) -> Verdict:
        """A person has answered the host about a call that was escalated. Never raises.

        An approval lifts only what escalated, of this very call, once. An edited call (`applied(call, approval)`) is
        judged again, and may be escalated again.

        `before` and `preview` ask a person; the ledger knows that from then on. A host that runs a call again because
        there is an answer to it says `resolve`, and not `before`: else every answer is one that was asked for here.

        Args:
            call: as it was shown.
            said: an `Approval`, or what `Approval.read` takes. To approve or to edit, it names as `of` the `digest` of
                the request. A host that itself keeps which call was shown fills in that of this call.
        """
        approval = Approval.read(said).readied(call.ready)
        return self._in_time(call, partial(self._resolved, call, approval), Waiting())

    async def aresolve(self, call: HostCall, said: Any) -> Verdict:
        """As `resolve`, without blocking the event loop."""
        approval = Approval.read(said).readied(call.ready)
        return await self._ain_time(call, partial(self._resolved, call, approval), Waiting())

    async def ahost_asks(self, call: HostCall) -> Verdict:
        """The host asks a person by a rule of its own, although none of this guard's escalates. Never raises.

        `resolve` answers that, once, and lifts no rule.
        """
        allowed = Verdict(Decision.ALLOW, checked_by="policy")
        return await self._ain_time(call, lambda _: self._asked(call, allowed, None))

    def was_asked(self, call: HostCall) -> bool:
        """Whether a person was asked about this very call, whatever came of it."""
        try:
            return self._ledger.question(call) is not None
        except GuardError:  # an approval of it was used, or nobody can tell: `resolve` says
            return True

    # --- a conversation

    def notes(self, conversation: str) -> dict[Any, Any]:
        """What the host's adapter keeps of a conversation, for as long as this guard keeps that.

        Raises:
            InputError: there is no such conversation here.
        """
        return self._conversations.of(conversation).notes

    def turn(self, conversation: str) -> None:
        """The user has spoken: the agent may replan anew."""
        self._conversations.of(conversation).turned()

    def session(self, conversation: str) -> Session:
        """The session of a conversation.

        Raises:
            InputError: none of this id has begun.
        """
        return self._conversations.known(conversation).session

    def end(self, conversation: str) -> Verdict:
        """The conversation is over: what is still owed; then it is forgotten.

        Raises:
            InputError: none of this id has begun.
        """
        try:
            session = self.session(conversation)
        except NotBegunError:
            raise
        except GuardError as error:
            verdict = unchecked(f"what is still owed is not known: {error}", checked_by="policy")
        else:
            verdict = denied_on_crash(session.finish)
            session.retire()
        self._conversations.drop(conversation)
        self._ledger.ended(conversation)
        return self._written("end", verdict, HostCall("", EMPTY, conversation))

    def restore(self, snapshot: bytes, key: bytes, *, newest: int | None = None) -> Session:
        """Goes on with a conversation from `session(id).snapshot(key)`, in another process.

        Raises:
            InputError: as `Policies.restore`; the conversation has begun here; or the guard has a ledger that keeps
                its history.
        """
        if self._shared:
            raise InputError("this guard goes on with the conversations of its ledger; expected no snapshot")
        shown: list[Conversation] = []
        given = self._state
        state = (lambda: given(shown[0].id)) if callable(given) else given
        session = self.policies.restore(
            snapshot, key, state=state, messages=lambda: shown[0].messages if shown else (), newest=newest
        )
        shown.append(Conversation(session.id, session, restored=True))
        self._conversations.put(shown[0])
        return session

    def answer(
        self, conversation: str, agent_input: str, output: str, facts: Mapping[str, Any] | None = None
    ) -> Verdict:
        """Judges an agent's final answer before the user sees it. Never raises. Without `answers` it is allowed."""
        if self.answers is None:
            return Verdict(Decision.ALLOW, checked_by="policy")
        verdict = denied_on_crash(partial(self._judged_answer, conversation, agent_input, output, facts))
        return self._written("answer", verdict, HostCall("agent_run", {"input": agent_input}, conversation))

    async def aanswer(
        self, conversation: str, agent_input: str, output: str, facts: Mapping[str, Any] | None = None
    ) -> Verdict:
        """As `answer`, without blocking the event loop."""
        return await asyncio.to_thread(self.answer, conversation, agent_input, output, facts)

    # --- inside

    def _judged_answer(self, conversation: str, *run: Any) -> Verdict:
        self._conversations.of(conversation)  # an answer belongs to one, too
        assert self.answers is not None
        return self.answers.guard(*run)

    def _begin(
        self, name: str, messages: Callable[[], Sequence[Mapping[str, Any]]], journal: ConversationJournal | None
    ) -> Session:
        options: dict[str, Any] = {} if journal is None else {"journal": journal}
        return self.policies.session(self._state_of(name), id=name, messages=messages, **options)

    def _state_of(self, conversation: str) -> Any:
        return partial(self._state, conversation) if callable(self._state) else self._state

    def _decided(self, call: HostCall, waiting: Waiting | None) -> Verdict:
        return self._kept(call, denied_on_crash(partial(self._judged, call)), waiting)

    def _previewed(self, call: HostCall, waiting: Waiting | None) -> Verdict:
        verdict = denied_on_crash(partial(self._judged, call, reserve=False))
        return self._kept(call, verdict, waiting) if verdict.decision is Decision.ESCALATE else verdict

    def _judged(self, call: HostCall, *, reserve: bool = True) -> Verdict:
        conversation = self._conversations.current(call.conversation)
        return self._barred(conversation, call) or self._checked(conversation, call, reserve=reserve)

    def _barred(self, conversation: Conversation, call: HostCall) -> Verdict | None:
        """The denial of a call that no rule need be asked about; else the host's messages are taken in.

        Raises:
            InputError: it cannot be judged as it stands.
        """
        if not isinstance(call.id, str):
            raise InputError(f"the id of the call is {call.id!r}; expected a text")
        if (late := self.accepted.late(call.tool)) is not None:
            return replace(unchecked(late.problem, checked_by="policy"), details={"difference": late.difference})
        if conversation.hung:
            raise InputError(
                f"a check of conversation {conversation.id!r} has not ended in time, and is still under way"
            )
        if (unseen := conversation.unseen(call)) is not None and self._looks_back(call):
            raise InputError(_NEVER_SAW.format(unseen, call.tool))
        if call.messages is not None:
            conversation.messages = call.messages
        return None

    def _checked(self, conversation: Conversation, call: HostCall, *, reserve: bool = True) -> Verdict:
        """The verdict on a call; a denial where what a server may take it for is denied."""
        others = [self._checked_alone(conversation, one, reserve=False) for one in call.otherwise_read()]
        refused = [one for one in others if one.label]
        if refused:
            itself = self._checked_alone(conversation, call, reserve=False)
            worst = next((one for one in refused if one.decision is not Decision.ESCALATE), refused[0])
            if itself.decision <= Decision.DENY or worst.decision is not Decision.ESCALATE:
                return replace(worst, decision=Decision.DENY, grant=None)
        return self._checked_alone(conversation, call, reserve=reserve)

    def _checked_alone(self, conversation: Conversation, call: HostCall, *, reserve: bool) -> Verdict:
        facts = self._facts_of(call)
        for given in (facts, call.facts):
            if not isinstance(given, Mapping):
                raise InputError(f"the facts are a {type(given).__name__}; expected a mapping of names to values")
        options: dict[str, Any] = {"tags": call.tags} if call.tags else {}
        if conversation.journal is not None:
            options["id"] = call.id
        facts = {**facts, **call.facts} if call.facts else facts
        tool = self.names.resolve(call.tool)
        for _ in range(MAX_RACES):
            try:
                verdict = conversation.session.check(
                    tool,
                    call.args,
                    facts=facts or None,
                    action=call.action,
                    agent=call.agent,
                    reserve=reserve,
                    **options,
                )
                break
            except MovedError:
                conversation.session.catch_up()
        else:
            raise InputError("other processes kept adding to the conversation; propose the call again")
        self._note_lapsed(conversation)
        if reserve and isinstance(verdict, Verdict) and verdict.label == 0 and verdict.permit is None:
            raise InputError(f"{call.tool} was allowed without a permit; expected the verdict of a session")
        if verdict.decision is Decision.ESCALATE and not self.policies.can_be_approved(verdict):
            return replace(verdict, decision=Decision.DENY, grant=None)  # nobody is asked for what would not help
        return verdict

    def _looks_back(self, call: HostCall) -> bool:
        kind = Call(self.names.resolve(call.tool), EMPTY).labelled(call.action, None, call.tags)
        return not isinstance(self.policies, Policies) or self.policies.looks_back(kind)

    def _facts_of(self, call: HostCall) -> Mapping[str, Any]:
        if not callable(self._facts):
            return self._facts
        try:
            return self._facts(call)
        except Exception as error:  # noqa: BLE001 - a host's function
            _log.error("the facts of a call cannot be had: %s", in_words(error))
            raise InputError(f"the facts cannot be had: {type(error).__name__}") from None  # no model reads the rest

    def _resolved(self, call: HostCall, said: Approval, waiting: Waiting | None) -> Verdict:
        self._note(write_approval, call, said)
        verdict = denied_on_crash(partial(self._answered, call, said))
        return self._kept(applied(call, said), verdict, waiting, edited=call)

    def _answered(self, call: HostCall, said: Approval) -> Verdict:
        conversation = self._conversations.current(call.conversation)
        if said.choice == "reject":
            self._ledger.rejected(call)
            reason = f"a person rejected this call{f': {said.reason}' if said.reason else ''}"
            return Verdict(Decision.DENY, reasons=(reason,), checked_by="policy")
        shown = self._shown(call, said)
        if (barred := self._barred(conversation, call)) is not None:  # what was fine when a person was asked
            return barred
        if said.choice == "edit":
            verdict = self._checked(conversation, applied(call, said))
        else:
            verdict = self._approved(conversation, call, shown)
        if verdict.label == 0:
            try:
                self._ledger.use(call)
            except Exception as error:
                self._withdraw(applied(call, said), verdict, in_words(error))
                raise
        return verdict

    def _shown(self, call: HostCall, said: Approval) -> Question | None:
        """What was asked about a call that a person has answered; None of what the host asked elsewhere.

        Raises:
            InputError: the answer is none to a question about this call, or it was answered.
        """
        digest, _, ledger = (said.of or "").partition(".")
        if digest != call.digest:
            raise InputError(_NAMES_NO_CALL.format(call.tool, said.choice))
        question = self._ledger.question(call)
        if question is not None and question.rejected:
            raise InputError(REJECTED)
        if (question is None or ledger not in ("", self._ledger.name)) and self._approvals == "asked here":
            raise InputError(_ASKED_ELSEWHERE.format(call.tool))
        return question

    def _approved(self, conversation: Conversation, call: HostCall, shown: Question | None) -> Verdict:
        for _ in range(MAX_RACES):  # another call may come between
            verdict = self._checked(conversation, call)
            if verdict.decision is not Decision.ESCALATE:
                return verdict
            if shown is not None and not set(verdict.rules) <= set(shown.rules):
                return verdict
            try:
                return conversation.session.approve(verdict)
            except InputError:
                continue
            except MovedError:
                conversation.session.catch_up()
        raise InputError("other calls kept coming between the approval and the call; approve it again")

    def _kept(
        self, call: HostCall, verdict: Verdict, waiting: Waiting | None, edited: HostCall | None = None
    ) -> Verdict:
        """The verdict, once it is noted and written; `edited`: the call that a person has made this one of."""
        if waiting is not None and waiting.over:
            return verdict  # it has been denied meanwhile
        if verdict.decision is Decision.ESCALATE:
            verdict = denied_on_crash(partial(self._asked, call, verdict, edited))
        return self._written("verdict", self._counted(call, verdict), call)

    def _asked(self, call: HostCall, verdict: Verdict, edited: HostCall | None) -> Verdict:
        self._ledger.asked(call, verdict.rules, edited)
        return verdict

    def _counted(self, call: HostCall, verdict: Verdict) -> Verdict:
        """The verdict, once it is noted; it says where the agent has replanned often enough."""
        if isinstance(call.conversation, str) and call.conversation:
            conversation = self._conversations.of(call.conversation)
            if verdict.label and conversation.journal is not None and isinstance(call.id, str):
                conversation.journal.proposed(call.id)
            if conversation.keep(call, verdict, self._max_replans):
                said = f"{conversation.replans} turns in a row were denied; control returns to the user"
                details = {**verdict.details, "gave_up": True}
                verdict = replace(verdict, reasons=(*verdict.reasons, said), details=details)
        return verdict

    def _use(self, call: HostCall, args: Mapping[str, Any] | None) -> Callable[..., Mapping[str, Any]]:
        """What uses the permit of a call, which counts as begun from now on."""
        conversation, tool = self._conversations.current(call.conversation), self.names.resolve(call.tool)
        return partial(conversation.session.use, conversation.permit(call, tool), tool, args)

    def _record(self, call: HostCall, outcome: Outcome, _waiting: Waiting | None) -> Verdict:
        conversation, tool = self._conversations.known(call.conversation), self.names.resolve(call.tool)
        permit = conversation.taken(call, tool) if outcome.ended else conversation.in_flight(call, tool)
        status: Status = "unknown"
        if outcome.ended:
            session = conversation.session
            try:
                failed = any(session.status_of(one, failed=False) == "failed" for one in outcome.beside)
                status = session.status_of(outcome.output, failed or outcome.failed)
                session.record(outcome.output, failed or outcome.failed, permit)
            except Exception:
                conversation.put_back(call, permit)
                raise
        self._note(write_outcome, call, outcome.output, status, permit)
        return Verdict(Decision.ALLOW, checked_by="policy")

    def _take_back(self, call: HostCall, why: str, used: bool, _waiting: Waiting | None) -> Verdict:  # noqa: FBT001
        conversation = self._conversations.known(call.conversation)
        permit = conversation.in_flight(call, self.names.resolve(call.tool), used=used)
        conversation.session.withdraw(permit, why, never_ran=used)
        conversation.forget(call.id, permit)
        self._note(write_withdrawal, call, why, permit)
        return Verdict(Decision.ALLOW, checked_by="policy")

    def _withdraw(self, call: HostCall, verdict: Verdict, why: str) -> None:
        """Withdraws a call that was allowed, which nobody was told."""
        conversation, permit = self._conversations.of(call.conversation), verdict.permit
        conversation.forget(call.id, permit)
        conversation.session.withdraw(permit, why)
        self._note(write_withdrawal, call, why, permit)

    def _note_lapsed(self, conversation: Conversation) -> None:
        """Writes of calls whose permits have expired unused that they were withdrawn."""
        for permit in conversation.session.lapsed() if self._own else ():
            call = HostCall(permit.tool, permit.args, conversation.id, conversation.id_of(permit))
            conversation.forget(call.id, permit)
            self._note(write_withdrawal, call, "its permit expired before it was used", permit)

    # --- in time

    def _in_time(self, call: HostCall, work: Work, waiting: Waiting | None = None) -> Verdict:
        """What some work gives, which does not raise; a denial where it takes too long.

        Args:
            call: what it is about.
            work: is told whether somebody waits for it.
            waiting: of a verdict; None where an outcome is recorded, which counts whenever it comes.
        """
        if self._inline:  # a thread would take ten times as long as the check
            return _sure(work, waiting)
        try:
            future = self._pool.submit(partial(_surely, work, waiting))
        except RuntimeError as error:
            return self._unchecked(call, str(error), waiting)
        try:
            return future.result(self._deadline)
        except TimeoutError:
            return self._late(call, future, waiting)
        except BaseException:
            self._give_up(call, future, waiting)
            raise

    async def _ain_time(self, call: HostCall, work: Work, waiting: Waiting | None = None) -> Verdict:
        if self._inline:
            return _sure(work, waiting)
        try:
            future = self._pool.submit(partial(_surely, work, waiting))
        except RuntimeError as error:
            return self._unchecked(call, str(error), waiting)
        try:
            return await waited(future, self._deadline)
        except TimeoutError:
            return self._late(call, future, waiting)
        except BaseException:
            self._give_up(call, future, waiting)
            raise

    def _late(self, call: HostCall, future: Future[Verdict], waiting: Waiting | None) -> Verdict:
        self._give_up(call, future, waiting)
        return self._unchecked(call, f"the check of {call.tool} took more than {self._deadline:g} s", waiting)

    def _unchecked(self, call: HostCall, problem: str, waiting: Waiting | None) -> Verdict:
        """The denial of a call whose check did not end. It is written, but nobody waits for that."""
        _log.error("%s; the call is denied", problem)
        verdict = unchecked(problem, checked_by="policy")
        if waiting is None:
            return verdict
        verdict = denied_on_crash(partial(self._counted, call, verdict))
        with contextlib.suppress(RuntimeError):
            self._pool.submit(partial(self._written, "verdict", verdict, call))
        return verdict

    def _give_up(self, call: HostCall, future: Future[Verdict], waiting: Waiting | None) -> None:
        """Nobody waits for a check any more: until it ends its conversation is closed; what it allows does not run."""
        if waiting is not None:
            waiting.over = True
            if future.cancel():
                return  # it had not begun
        with contextlib.suppress(InputError):
            conversation = self._conversations.of(call.conversation)
            conversation.hang(+1)
            future.add_done_callback(lambda done: self._ended_late(call, conversation, done))

    def _ended_late(self, call: HostCall, conversation: Conversation, done: Future[Verdict]) -> None:
        try:
            if not done.cancelled() and done.result().permit is not None:
                self._withdraw(call, done.result(), "its check did not end in time")
        except Exception as error:  # noqa: BLE001 - then it stays in flight, which allows nothing
            _log.error("a call whose check ended too late stays in flight: %s", error)
        conversation.hang(-1)

    # --- the log

    def _written(self, kind: str, verdict: Verdict, call: HostCall) -> Verdict:
        """The verdict, once it is in the log; a denial where it cannot be."""
        if self._log is None:
            return verdict
        try:
            write_verdict(self._log, self._digest, kind, call, verdict)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong in a log
            return self._unwritten(verdict, call, error)
        return verdict

    def _unwritten(self, verdict: Verdict, call: HostCall, error: Exception) -> Verdict:
        _log.error("the audit log cannot be written: %s", error)
        if self._on_log_error == "warn":
            return verdict
        if verdict.label == 0 and verdict.grant is not None:
            self._withdraw(call, verdict, "its verdict could not be written to the audit log")
        return combine(verdict, unchecked(f"the audit log cannot be written: {error}", checked_by="policy"))

    def _note(self, write: Callable[..., None], call: HostCall, *said: Any) -> None:
        """Has something written that no call waits for: where that fails, the next verdict meets the same fault."""
        if self._log is None:
            return
        try:
            write(self._log, call, *said)
        except Exception as error:  # noqa: BLE001 - as above
            _log.error("the audit log cannot be written: %s", error)


def _unchecked(tools: Iterable[ToolSpec]) -> list[str]:
    """What a person should know of the tools' schemas, a line each."""
    why = "RE2 cannot compile the pattern, so that only the tool itself holds arguments to it:"
    return [f"{why} {pattern} (of {tool.name})" for tool in tools for pattern in unchecked_patterns(tool.schema)]


def _sure(work: Work, waiting: Waiting | None) -> Verdict:
    return denied_on_crash(partial(work, waiting))


def _surely(work: Work, waiting: Waiting | None) -> Verdict:
    """In a thread of ours nobody interrupts: what ends the process elsewhere is a rule's, and denies."""
    try:
        return _sure(work, waiting)
    except BaseException as error:  # noqa: BLE001 - SystemExit, for one
        return unchecked(in_words(error), checked_by="policy")


def _complain(recorded: Verdict) -> None:
    for error in recorded.errors:
        _log.error("an outcome was not recorded, and its call stays in flight: %s", error)


def applied(call: HostCall, said: Approval) -> HostCall:
    """The call as a person left it."""
    return replace(call, args=said.args) if said.choice == "edit" else call


def gave_up(verdict: Verdict) -> bool:
    """Whether the agent has replanned often enough, so that control returns to the user."""
    return bool(verdict.details.get("gave_up"))
