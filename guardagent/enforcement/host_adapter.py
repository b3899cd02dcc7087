"""The part of an adapter that all hosts share: the life of a call, from its proposal to its outcome.

A host's subclass of `ToolInvocation` describes one call of a tool: how its arguments are bound, what the host knows of
it, how its reviewers are asked, how it runs, and how its outcome reads. A `HostAdapter` is one guard at the agents of a
host, with the conversations, the listed tools and the final answers of these.
"""

from __future__ import annotations

import json
import logging
import weakref
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Generic, Protocol
from weakref import WeakSet

from guardagent._support.execution import Operation, Procedure, adrive, drive
from guardagent.enforcement.approval import Approval, ApprovalRequest, edit_note, with_edits
from guardagent.enforcement.calls import HostCall, Outcome, plain_arguments, plain_value
from guardagent.enforcement.conversations import NotBegunError
from guardagent.enforcement.enforcement_point import EnforcementPoint
from guardagent.enforcement.host_runs import HostRun, HostScope, HostScopeT, HostSurroundings, Named, naming
from guardagent.enforcement.lifecycle import MAX_REQUESTS, JudgedCall, PermitVoidError, within_events
from guardagent.enforcement.names import ToolSpec
from guardagent.enforcement.tool_arguments import as_judged, same_arguments
from guardagent.errors import GuardError, InputError, ToolDenied, ToolTimeoutError, error_text
from guardagent.types import Decision, Verdict, thaw, unchecked_verdict

_log = logging.getLogger("guardagent")

# --- the calls of a conversation


def proposed_ids(guard: EnforcementPoint, conversation: str | None) -> set[str]:
    """Returns the ids of the calls that models proposed in a conversation."""
    known: set[str] = guard.notes(conversation).setdefault("proposed", set()) if conversation else set()
    return known


def paused_calls(guard: EnforcementPoint, conversation: str | None) -> dict[Any, HostCall]:
    """Returns the running calls of a conversation whose tools wait for a person."""
    known: dict[Any, HostCall] = guard.notes(conversation).setdefault("paused", {}) if conversation else {}
    return known


def note_run(guard: EnforcementPoint, conversation: str | None, run: Any, tokens: int) -> None:
    """Notes the tokens of a run so far, which are in an object of the host that its agents may share."""
    if conversation:
        names: _RunNames = guard.notes(conversation).setdefault(_RunNames, _RunNames())
        guard.spent(conversation, tokens=tokens, of=names.of(run))


class _RunNames:
    """Names of objects that it does not keep alive, and that no host gives. Another object may get the id of one."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._count = 0

    def of(self, run: Any) -> str:
        known = self._known.get(id(run))
        if known is None or known[0]() is not run:
            self._count += 1
            known = self._known[id(run)] = weakref.ref(run), f"\0run {self._count}"
        return known[1]


def end_conversation(guard: EnforcementPoint, conversation: str) -> None:
    """Ends a conversation that is over for its host. The log has the verdict, and a warning names what is pending."""
    try:
        reasons = guard.end(conversation).reasons
    except NotBegunError:  # it has no calls
        return
    except GuardError as error:
        reasons = (str(error),)
    if reasons:
        _log.warning("at the end of %s: %s", conversation, "; ".join(reasons))


# --- denials


def noted_denial(denied: ToolDenied, around: HostScope, unnamed: str) -> ToolDenied:
    """Notes a denial at its run, and returns it; one without a conversation says how to name it.

    Args:
        denied: the denial.
        around: the surroundings of the call.
        unnamed: how a program of this host names a conversation.
    """
    if around.run is not None:
        around.run.note(denied.tool, denied.verdict)
    return explained_denial(denied, around.conversation, unnamed)


def explained_denial(denied: ToolDenied, conversation: str | None, unnamed: str) -> ToolDenied:
    """Returns a denial of a call outside of a run; without a conversation, with the reason."""
    if conversation:
        return denied
    return ToolDenied(denied.tool, replace(denied.verdict, errors=(*denied.verdict.errors, unnamed)))


def explained(verdict: Verdict, why: str) -> Verdict:
    """Returns the verdict on a call; if it escalates where the host cannot ask, with the reason."""
    return replace(verdict, errors=(*verdict.errors, why)) if verdict.decision is Decision.ESCALATE else verdict


def withheld(verdict: Verdict) -> str:
    """Returns the text in place of a denied answer."""
    return f"The answer is withheld.\n{verdict.feedback()}"


# --- what rules read


def plain_or_text(value: Any) -> Any:
    """Returns a value as rules read it; as a string if it has no such form."""
    try:
        return plain_value(value)
    except InputError:
        return str(value)


def answer_text(answer: Any) -> str:
    """Returns a final answer as rules read it."""
    if isinstance(answer, str):
        return str.__str__(answer)
    try:
        return json.dumps(plain_value(answer), ensure_ascii=False, default=str)
    except (InputError, TypeError, ValueError):
        return str(answer)


def last_user_text(messages: Iterable[Mapping[str, Any]]) -> str:
    """Returns the text of the user's last message; empty if there is none."""
    return next((message["content"] for message in reversed(list(messages)) if message["role"] == "user"), "")


# --- the tools of agents

UNREAD = "Not accepted by the operator yet: each call is denied."
"""The description of a server's tool that the operator has not accepted."""


class ListedTools:
    """The tools of one attachment.

    Args:
        guard: compares them with its rules.

    Attributes:
        specs: the tools by name.
    """

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard = guard
        self.specs: dict[str, ToolSpec] = {}
        self._checked: dict[str, ToolSpec] | None = None

    def add(self, *specs: ToolSpec) -> None:
        self.specs.update({spec.name: spec for spec in specs})

    @property
    def changed(self) -> bool:
        """Whether there are tools that were not compared with the rules as they are now."""
        return self._checked != self.specs

    def check(self) -> None:
        """Compares new or changed tools with the rules.

        Raises:
            InputError: a rule names a tool that is probably a misspelling of one of these.
        """
        if self.changed:
            self._guard.attach(self.specs.values())
            self._checked = dict(self.specs)


def unaccepted_names(guard: EnforcementPoint, servers: Mapping[str, Sequence[ToolSpec]]) -> set[str]:
    """Compares the tools of servers with the accepted ones. Returns the names of those that may not be called.

    Args:
        guard: holds the accepted tools.
        servers: the complete list of each server, by its key.
    """
    for server, listed in servers.items():
        guard.update_server_tools(server, listed)
    names = {spec.name for listed in servers.values() for spec in listed}
    return {name for name in names if guard.accepted.unaccepted(name) is not None}


# --- one guard at the agents of a host

NO_APPROVER = "this host has no approvals of its own; give the guard an approver, as in ToolGuard(..., approver=...)"
_REPORTED: WeakSet[EnforcementPoint] = WeakSet()


class HostApproval:
    """Whether a call may need a reviewer whom the host asks.

    Args:
        guard: decides.
    """

    def __init__(self, guard: EnforcementPoint) -> None:
        self._guard, self._has_escalated = guard, False

    @property
    def may_be_needed(self) -> bool:
        """Whether a rule may escalate a call, or could under an earlier version of the rules.

        A guard with an approver does not need the host.
        """
        self._has_escalated = self._has_escalated or self._guard.may_escalate
        return self._guard.approver is None and self._has_escalated

    def report_missing(self, missing: str) -> None:
        """Warns, once for a guard, that the host can ask no reviewer though a rule may escalate a call.

        Args:
            missing: what it lacks.
        """
        if self.may_be_needed and self._guard not in _REPORTED:
            _REPORTED.add(self._guard)
            _log.warning("attached: each call that a rule escalates is denied: %s", missing)


NO_USAGE = (
    "attached: the host %s does not state what models have used, so each call is denied for which a rule reads "
    "usage.tokens or usage.cost; expected calls of guard.spent(...)"
)


class _Guarded(Protocol):
    guard: EnforcementPoint


class HostAdapter(Generic[HostScopeT]):
    """One guard at the agents of a host.

    Args:
        guard: decides.
        surroundings: those of the host's code.
        named: the operator's name of the conversation, or a function that returns it.
        unnamed: how a program of this host names a conversation.

    Attributes:
        listed: the tools that are compared with the rules.
        approval: whether the host may have to ask a reviewer.
    """

    def __init__(
        self, guard: EnforcementPoint, surroundings: HostSurroundings[HostScopeT], named: Named, unnamed: str
    ) -> None:
        self.guard, self.surroundings, self.unnamed = guard, surroundings, unnamed
        self.name = naming(named)
        if guard.reads_usage and not surroundings.states_usage:
            _log.warning(NO_USAGE, surroundings.host)
        self.listed, self.approval = ListedTools(guard), HostApproval(guard)

    def is_new(self, owner: _Guarded | None, subject: str, expected: str = "one guard for all agents") -> bool:
        """Whether something has no guard yet.

        Raises:
            InputError: it has another guard.
        """
        if owner is not None and owner.guard is not self.guard:
            raise InputError(f"{subject} has another guard already; expected {expected}")
        return owner is None

    # --- conversations

    def around(self) -> HostScopeT:
        """Returns the surroundings of a call."""
        around = self.surroundings.scope()
        return self.surroundings.kind(self.name()) if around is None else around

    def begin(
        self, new_run: Callable[[Any], HostRun], session: str | None = None, *, starts_turn: bool = True
    ) -> HostScopeT:
        """Returns the surroundings of a new run: within a tool, those of the call.

        Args:
            new_run: returns the run, from the run around it.
            session: the id of the host's session, if any.
            starts_turn: whether the user has spoken, if the run is not within another one.
        """
        outside = self.surroundings.scope()
        around = self.surroundings.begin(new_run, self.name(), session)
        if starts_turn and around.conversation and not (outside is not None and outside.inside):
            self.guard.turn(around.conversation)
        return around

    def proposed(self, around: HostScopeT) -> set[str]:
        """Returns the ids of the calls that models proposed in this conversation."""
        return proposed_ids(self.guard, around.conversation)

    # --- final answers

    def answer_denial(self, around: HostScopeT, request: str, text: str) -> Procedure[Verdict | None]:
        """Judges the final answer of a run. Returns the verdict that denies it; None if the user may see it.

        Args:
            around: the surroundings of the run.
            request: the text of the user.
            text: the answer.

        Raises:
            ToolDenied: a rule halts the run; of the run's `halt_error`.
        """
        arguments = (around.conversation or "", request, text)
        verdict: Verdict = yield Operation(
            partial(self.guard.answer, *arguments), partial(self.guard.aanswer, *arguments)
        )
        run = around.run
        if run is not None:
            run.passed.add(withheld(verdict) if verdict.label else text)
        if not verdict.label:
            return None
        if run is not None:
            run.note("answer", verdict)
            if run.halted is not None:
                raise run.halted
        return verdict


# --- one call

HANDOFF = "handoff"

_ELSEWHERE = Verdict(Decision.ESCALATE, reasons=("the approval was requested before, and has the reasons",))


class ToolInvocation(ABC, Generic[HostScopeT]):
    """One call of a tool, from its proposal to its outcome. A host's subclass tells how its calls look.

    Args:
        adapter: has the guard and the conversations.
        name: the name of the tool.
        around: the surroundings of the call.

    Attributes:
        edits_run: whether the edits of a reviewer run as they are; otherwise as `rebind` reads them.
        pausing: the classes of outputs and errors after which the tool waits for a person, and runs again as the same
            call.
        resumes: whether the host's subclass pauses calls itself.
        target: the tool's argument with the agent that takes over, which rules know as `to`; None unless the call is a
            hand-off.
        own: copies of the arguments that are judged, as the tool gets them.
        apart: the arguments that are neither judged nor logged.
        unread: the arguments of a call that cannot be judged, as far as they are known.
    """

    edits_run: ClassVar[bool] = False
    pausing: ClassVar[tuple[type, ...]] = ()
    resumes: ClassVar[bool] = False
    target: str | None = None

    def __init__(self, adapter: HostAdapter[HostScopeT], name: str, around: HostScopeT) -> None:
        self.adapter, self.guard, self.name, self.around = adapter, adapter.guard, name, around
        self.own: dict[str, Any] = {}
        self.apart: dict[str, Any] = {}
        self.unread: Mapping[str, Any] = {}
        self._note = ""

    # --- how the calls of a host look

    @abstractmethod
    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns copies of the arguments that the tool will get, with defaults, and those that are not judged.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """

    @abstractmethod
    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a reviewer's arguments as the tool would get them.

        Raises:
            InputError: they do not fit the tool, or one cannot be judged.
        """

    def options(self) -> dict[str, Any]:
        """Returns what the host knows of the call, as options of a `HostCall`."""
        around = self.around
        options = {} if around.run is None else around.run.call_options(nested=around.call is not None)
        return options if around.tool_id is None else {**options, "id": around.tool_id}

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call, in hosts with an approval mechanism of their own. Returns the verdict and the edited call."""
        return self.guard.lifecycle.judge(call)

    def inside(self, call: HostCall) -> HostScopeT:
        """Returns the surroundings of the tool's work."""
        return replace(self.around, conversation=call.conversation, call=call, tool_id=None)

    def outcome(self, output: Any) -> Outcome | None:
        """Returns a call's outcome from what its tool has returned; None if the call has not ended."""
        return Outcome(plain_or_text(output))

    def failure(self, error: BaseException) -> Outcome | None:
        """Returns a call's outcome from what its tool has raised; None if the call has not ended."""
        return Outcome.of_error(error)

    def tell(self, output: Any, line: str) -> Any:
        """Returns a tool's output with a line for the model: what ran, if a reviewer has edited the call."""
        if output is None or isinstance(output, str | bool | int | float | Mapping | list | tuple):
            return f"{answer_text(output)}\n{line}"
        return output

    # --- calls whose tools wait for a person

    def key(self, call: HostCall) -> Any:
        """Returns what tells a paused call from others."""
        return call.tool, call.id

    def pause(self, call: HostCall) -> None:
        """Notes that the tool of a running call waits for a person."""
        paused_calls(self.guard, call.conversation)[self.key(call)] = call

    def resumed(self, call: HostCall) -> HostCall | None:
        """Returns the paused call that the proposed one continues; None if it is a new call."""
        started = paused_calls(self.guard, call.conversation).pop(self.key(call), None)
        return started if started is not None and started.args == call.args else None

    # --- the life of the call

    def steps(self, work: Callable[[dict[str, Any]], Operation]) -> Procedure[Any]:
        """Judges the call, runs its tool with the judged arguments, and returns the output.

        Args:
            work: returns the work of the tool with these arguments.

        Raises:
            ToolDenied: the call may not run.
        """
        call, args = yield from self.allowed()
        return (yield from self.run(call, work(args)))

    def allowed(self) -> Procedure[tuple[HostCall, dict[str, Any]]]:
        """Judges the call. Returns it as it may run, with its permit used, and the arguments of its tool.

        Raises:
            ToolDenied: the call may not run. Its run has noted that.
        """
        try:
            self.own, self.apart = self.bind()
            proposed = self.call(self.plain(), self._validated)
        except Exception as error:  # noqa: BLE001 - whatever a host's validation raises
            problem = str(error) if isinstance(error, InputError) else error_text(error)
            raise (yield from self.refusal(problem)) from None
        if (self.pausing or self.resumes) and (started := self.resumed(proposed)) is not None:
            return started, {**self.received(started, thaw(started.args)), **self.apart}
        try:
            call, judged = yield from self.guard.lifecycle.authorize(proposed, self.judge(proposed))
            args = self.own if call is proposed else (yield from self._edited(call, judged))
            self.note_edit(proposed, call)
        except ToolDenied as denied:
            raise self.noted(denied) from None
        return call, {**args, **self.apart} if self.apart else args

    def run(self, call: HostCall, work: Operation) -> Procedure[Any]:
        """Runs the tool of an allowed call in its surroundings, records the outcome, and returns the output."""
        return self.execute(call, self.adapter.surroundings.within(self.inside(call), work))

    def execute(self, call: HostCall, work: Operation) -> Procedure[Any]:
        """Runs the tool of an allowed call, records the outcome, and returns the output."""
        outcome, failure = self.outcome, self.failure
        if self.pausing:
            outcome, failure = partial(self._ended, call, outcome), partial(self._ended, call, failure)
        steps = self.guard.lifecycle.execute(call, work, outcome, failure)
        return self._with_note(steps) if self._note else steps

    async def stream(
        self, call: HostCall, events: AsyncGenerator[Any, None], *, is_last: Callable[[Any], bool] = lambda _: False
    ) -> AsyncGenerator[Any, None]:
        """Yields the events of a running tool, and records the outcome from the last one.

        Args:
            call: the allowed call.
            events: those of its tool.
            is_last: whether an event is the last one, which is shown only after its record.
        """
        life, last = self.guard.lifecycle, None
        try:
            async with aclosing(self.adapter.surroundings.stream_within(self.inside(call), events)) as running:
                async for last in within_events(running, call.tool, life.timeout(call)):
                    if is_last(last):
                        break
                    yield last
        except ToolTimeoutError as error:
            await adrive(life.after(call, Outcome(str(error), failed=None)))
            raise
        except BaseException as error:
            if (failed := self._ended(call, self.failure, error)) is not None:
                recorded = life.after(call, failed)
                if isinstance(error, Exception):
                    await adrive(recorded)
                else:
                    drive(recorded)  # not awaited: the task is cancelled
            raise
        if (ended := self._ended(call, self.outcome, last)) is not None:
            await adrive(life.after(call, ended))
        if is_last(last):
            yield self.tell(last, self._note) if self._note else last

    def note_edit(self, proposed: HostCall, call: HostCall) -> None:
        """Notes what ran, for the model, if it is not what the model has proposed."""
        self._note = edit_note(proposed, call.args) or self._note  # a host may propose the edited call itself

    def _with_note(self, steps: Procedure[Any]) -> Procedure[Any]:
        try:
            output = yield from steps
        except Exception as error:
            if error.args == (str(error),):  # a host shows its text to the model
                error.args = (f"{error}\n{self._note}",)
            raise
        return output if isinstance(output, self.pausing) or self.target is not None else self.tell(output, self._note)

    # --- its parts

    def call(
        self, args: Mapping[str, Any], validate_edit: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    ) -> HostCall:
        """Returns the proposed call, with arguments as rules read them."""
        options = {"validate_edit": validate_edit, **self.options()}
        if self.target is not None:
            options["action"] = HANDOFF
        return HostCall(self.name, args, self.around.conversation, **options)

    def refusal(self, problem: str) -> Procedure[ToolDenied]:
        """Denies a call that cannot be judged, and returns the denial."""
        verdict = yield from self.guard.lifecycle.refuse(self.call(self.unread), problem)
        return self.noted(ToolDenied(self.name, verdict))

    def noted(self, denied: ToolDenied) -> ToolDenied:
        """Notes a denial at the run, and returns it; one without a conversation says how to name it."""
        return noted_denial(denied, self.around, self.adapter.unnamed)

    def received(self, call: HostCall, judged: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - of hosts
        """Returns the arguments that the tool gets: the judged copies, or those that a reviewer's edits lead to.

        Raises:
            InputError: the tool would get other arguments than the judged ones.
        """
        plain = self.plain()
        if self.edits_run:
            return self._hosts(as_judged(judged, self._shown(self.own), plain))
        if same_arguments(plain, judged):
            return self.own
        edited = self.rebind(self._hosts(judged))
        if not same_arguments(plain_arguments(self._shown(edited)), judged):
            raise InputError(f"{self.name!r} would get other arguments than the judged ones")
        return edited

    def _edited(self, call: HostCall, judged: Mapping[str, Any]) -> Procedure[dict[str, Any]]:
        try:
            return self.received(call, judged)
        except Exception as error:  # noqa: BLE001 - as above; the call has a permit, and does not run
            problem = str(error) if isinstance(error, InputError) else error_text(error)
            yield from self.guard.lifecycle.withdraw(call, problem, used=True)
            raise PermitVoidError(call.tool, unchecked_verdict(problem, checked_by="policy")) from None

    def plain(self) -> Mapping[str, Any]:
        """Returns the arguments as rules read them.

        Raises:
            InputError: one has no such form.
        """
        return plain_arguments(self._shown(self.own))

    def _validated(self, edited: Mapping[str, Any]) -> Mapping[str, Any]:
        return plain_arguments(self._shown(self.rebind(self._hosts(edited))))

    def _ended(self, call: HostCall, read: Callable[[Any], Outcome | None], result: Any) -> Outcome | None:
        if isinstance(result, self.pausing):
            self.pause(call)
            return None
        return read(result)

    def _shown(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the arguments as rules know them."""
        return args if self.target is None else _renamed(args, self.target, "to")

    def _hosts(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments as the tool knows them."""
        return dict(args) if self.target is None else _renamed(args, "to", self.target)

    # --- approval by the host

    def judge_at_host(self, call: HostCall, why_not: str) -> Procedure[JudgedCall]:
        """Judges a call. If a rule escalates it, the host asks a reviewer, and runs the call again after the answer.

        Args:
            call: the call.
            why_not: the reason if it escalates, though it did not when it was judged ahead of its tool.
        """
        if call.conversation and self.adapter.approval.may_be_needed:
            judged = yield from self._ask_host(replace(call, step=None, messages=None, seen=None))
            if judged is not None:
                return judged
        verdict, call = yield from self.guard.lifecycle.judge(call)
        return explained(verdict, why_not), call

    def host_answer(self, call: HostCall) -> Procedure[Approval | None]:
        """Returns the answer of the host's reviewer about a call, or None if no rule escalates it. May end the run.

        Only for hosts that use `judge_at_host`; see `host_request`.
        """
        raise NotImplementedError

    def host_request(self, call: HostCall) -> Procedure[ApprovalRequest | None]:
        """Returns the approval request of a call, which is in the guard's ledger; None if no rule escalates it."""
        life = self.guard.lifecycle
        verdict = _ELSEWHERE if self.guard.has_request(call) else (yield from life.preview(call))
        return life.request(call, verdict) if verdict.decision is Decision.ESCALATE else None

    def _ask_host(self, call: HostCall) -> Procedure[JudgedCall | None]:
        """Asks a reviewer through the host. Returns None if no rule escalates the call.

        Args:
            call: the call without its step and its messages, which a resumed run does not know.
        """
        edits = self.guard.notes(str(call.conversation)).setdefault("edits", {})
        for _ in range(MAX_REQUESTS):
            if call.digest in edits:  # in an earlier run
                call = with_edits(call, edits[call.digest])
                continue
            approval = yield from self.host_answer(call)
            if approval is None:
                return None
            approval = approval.validated(call.validate_edit)
            verdict = yield from self.guard.lifecycle.resolve(call, approval)
            edited = with_edits(call, approval)
            if verdict.decision is not Decision.ESCALATE:
                return verdict, edited
            edits[call.digest], call = approval, edited
        return Verdict(Decision.DENY, reasons=("it was edited too often",)), call


def _renamed(args: Mapping[str, Any], before: str, after: str) -> dict[str, Any]:
    return {after if name == before else name: value for name, value in args.items()}
