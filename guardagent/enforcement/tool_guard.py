"""The guard of an agent's tools, independent of the host; an adapter translates for each host.

Its options are checked when it is built, since a mistake would show only at the first call, or never. `run` and `arun`
guard one call from its proposal to its outcome, for hosts whose adapter wraps the tool.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from guardagent._support.execution import Operation, Procedure, adrive, combine, drive, verdict_or_denial
from guardagent.enforcement.approval import Approver
from guardagent.enforcement.audit_records import AuditRecords, AuditSink, spooled_log
from guardagent.enforcement.calls import HostCall, Outcome
from guardagent.enforcement.conversations import CallRecorder, Conversation, Conversations, NotBegunError
from guardagent.enforcement.decisions import NO_STOPS, ClaimRecorder, Decider, gave_up
from guardagent.enforcement.enforcement_point import EnforcementPoint
from guardagent.enforcement.ledger import METHODS, Ledger, MemoryLedger, open_ledger
from guardagent.enforcement.ledger.staging import StagedOperation, staging
from guardagent.enforcement.lifecycle import Arguments, DeadlinePool, LocalLifecycle, ReadOutcome, TimeLimit
from guardagent.enforcement.names import AcceptedTools, Coverage, Names, ToolSpec, read_tools_lock
from guardagent.enforcement.schema import unchecked_patterns
from guardagent.enforcement.stops import Stops, stops_of
from guardagent.errors import GuardError, InputError, error_text
from guardagent.policy.evaluation.monitor_interface import HostClock, SessionCall
from guardagent.policy.language import ANSWER, answer_arguments
from guardagent.policy.language.values import zone_named
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.policy.provenance.recorder import LIMIT as PROVENANCE_BYTES
from guardagent.policy.views import HostView
from guardagent.session.calls import FindGrants
from guardagent.session.counters import CounterStore, SessionCounters
from guardagent.session.session import Session
from guardagent.session.snapshot import read_snapshot
from guardagent.session.verdicts import without_answer_text
from guardagent.types import EMPTY, Decision, Verdict, unchecked_verdict
from guardagent.types.values import read_principal

if TYPE_CHECKING:
    from guardagent.enforcement.ledger.history import ConversationJournal
    from guardagent.guard import GuardAgent

__all__ = ["ToolGuard", "gave_up"]

_log = logging.getLogger("guardagent")


# --- options


def check_options(**options: Any) -> None:
    """Checks the arguments of `ToolGuard`.

    Raises:
        InputError: an argument is invalid.
    """
    for name, value in options.items():
        expected, fits = _OPTIONS[name]
        if not fits(value):
            raise InputError(f"{name} is {value!r}; expected {expected}")
        if name in ("state", "facts", "principal") and inspect.iscoroutinefunction(value):
            raise InputError(
                f"{name} is a coroutine function; expected a plain function, since a check waits for its result"
            )


_OPTIONS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "state": ("a state for 'state(...)', or a function that returns one", lambda _: True),
    "facts": (
        "a mapping of names to values, or a function that returns one",
        lambda value: callable(value) or isinstance(value, Mapping),
    ),
    "principal": (
        "a mapping with 'id', 'roles' and 'tenant', or a function that returns one",
        lambda value: value is None or callable(value) or isinstance(value, Mapping),
    ),
    "aliases": (
        "a mapping of host tool names to the rules' tool names",
        lambda value: isinstance(value, Mapping),
    ),
    "absent": (
        "a set of tool names",
        lambda value: (
            isinstance(value, Collection) and not isinstance(value, str | Mapping) and all(map(_is_text, value))
        ),
    ),
    "tools_lock": ("the path of a lock file", lambda value: value is None or isinstance(value, str | Path)),
    "extra": ("a function that returns the rules for a conversation", lambda value: value is None or callable(value)),
    "approver": ("a function that takes an ApprovalRequest", lambda value: value is None or callable(value)),
    "views": (
        "a mapping of tools to functions that take the arguments",
        lambda value: isinstance(value, Mapping) and all(map(callable, value.values())),
    ),
    "answers": ("a GuardAgent", lambda value: value is None or callable(getattr(value, "guard", None))),
    "log": ("an AuditLog", lambda value: value is None or callable(getattr(value, "append", None))),
    "on_log_error": ("'deny', 'warn' or 'spool'", lambda value: value in ("deny", "warn", "spool")),
    "log_spool": ("the path of a file", lambda value: value is None or isinstance(value, str | Path)),
    "max_replans": ("an integer of at least 0", lambda value: type(value) is int and value >= 0),
    "ledger": (
        "the address of a ledger, such as 'sqlite:ledger.db', a SqliteLedger, or None",
        lambda value: (
            value is None or isinstance(value, str) or all(callable(getattr(value, name, None)) for name in METHODS)
        ),
    ),
    "grants": ("a function that returns the grants of a conversation", lambda value: value is None or callable(value)),
    "counters": (
        "the address of a store of counters, such as 'sqlite:PATH', or a store",
        lambda value: value is None or isinstance(value, str) or callable(getattr(value, "reserve", None)),
    ),
    "stop_file": (
        "the path of a stop file",
        lambda value: value is None or isinstance(value, str | Path) or callable(getattr(value, "covering", None)),
    ),
    "approvals": ("'asked here' or \"this host's\"", lambda value: value in ("asked here", "this host's")),
    "clock": ("a function that returns the time, or None", lambda value: value is None or callable(value)),
    "zone": (
        "a time zone such as 'Europe/Berlin', or None",
        lambda value: (
            value is None or isinstance(value, dt.tzinfo) or (isinstance(value, str) and zone_named(value) is not None)
        ),
    ),
    "provenance_bytes": ("an integer of at least 0", lambda value: type(value) is int and value >= 0),
    "deadline": (
        "a number of seconds above 0",
        lambda value: type(value) in (int, float) and 0 < value <= threading.TIMEOUT_MAX,
    ),
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


# --- the guard

MAX_REPLANS = 3
DEADLINE_SECONDS = 10.0


class ToolGuard(EnforcementPoint):
    """Decides on each call of an agent's tools, and keeps the history of each conversation.

    Args:
        policies: the rules, or their file or files.
        state: the state for `state(...)`: a live mapping, or a callable that returns it for a conversation's id.
        facts: the host's facts: a mapping, or a callable that returns one for a call (`HostCall`).
        principal: on whose behalf the agent acts: a mapping with `id`, `roles` and `tenant`, or a callable that returns
            it for a conversation's id. It is called when the conversation begins, and again for each check: roles that
            it no longer returns are gone.
        extra: returns the rules for one conversation only, by its id, as `Policies.session` takes them; None for none.
        aliases: a tool's name in the host -> its name in the rules.
        absent: tools that rules name and this agent is known not to have.
        tools_lock: the lock file of the tools that servers may list; without it the first list of each is accepted.
        approver: decides on escalated calls, in place of the host's own approval mechanism.
        views: a tool -> a function that shows its calls to reviewers, beside the arguments: it takes the arguments, and
            returns a text or rows of a table.
        answers: judges the agent's final answers.
        log: receives every verdict, such as `guardagent.log.AuditLog`.
        on_log_error: `deny` denies a call whose verdict cannot be written; `warn` only logs a warning; `spool` writes
            the verdict to a local file, and to the log once it can be written again.
        log_spool: the local file; by default it is next to the log.
        max_replans: the number of consecutive model turns with denied calls after which control returns to the user.
        clock: the clock of every conversation, as for `Session`.
        zone: its time zone, as for `Session`.
        deadline: the time limit of a check in seconds; a check that takes longer denies.
        provenance_bytes: the maximum size of the index for `sources(...)` of each conversation, as for `Session`.
        ledger: stores the used approvals, or its address, such as `sqlite:PATH`. All but the one in memory also store
            conversations, for all processes that share them, and over restarts. Without a ledger, this guard keeps the
            approvals in memory.
        counters: the store of the policy's counters across conversations, or its address, such as `sqlite:PATH`.
        grants: returns the function with which a conversation finds its grants, as for `Session`; a server has them.
        stop_file: the path of a stop file, which is created if it is missing: see `StopFile`. Without it, nobody but
            the host can stop the calls of this guard. A server passes its own `Stops`.
        approvals: with `asked here`, an approval counts only if this ledger has a request for it. With `this host's`,
            an approval requested elsewhere counts, too, once for each ledger without a request for it.

    Raises:
        InputError: an argument is invalid.
    """

    lifecycle: LocalLifecycle
    names: Names

    def __init__(
        self,
        policies: Policies | Path | str | Sequence[Path | str],
        *,
        state: Mapping[str, Any] | Callable[[str], Any] | None = None,
        facts: Mapping[str, Any] | Callable[[HostCall], Mapping[str, Any]] = EMPTY,
        principal: Mapping[str, Any] | Callable[[str], Mapping[str, Any] | None] | None = None,
        extra: Callable[[str], Any] | None = None,
        aliases: Mapping[str, str] = EMPTY,
        absent: Collection[str] = (),
        tools_lock: Path | str | None = None,
        approver: Approver | None = None,
        views: Mapping[str, HostView] = EMPTY,
        answers: GuardAgent | None = None,
        log: AuditSink | None = None,
        on_log_error: Literal["deny", "warn", "spool"] = "deny",
        log_spool: Path | str | None = None,
        max_replans: int = MAX_REPLANS,
        clock: HostClock | None = None,
        zone: dt.tzinfo | str | None = None,
        deadline: float = DEADLINE_SECONDS,
        provenance_bytes: int = PROVENANCE_BYTES,
        ledger: Ledger | str | None = None,
        counters: CounterStore | str | None = None,
        grants: Callable[[str], FindGrants] | None = None,
        stop_file: Path | str | Stops | None = None,
        approvals: Literal["asked here", "this host's"] = "asked here",
    ) -> None:
        check_options(
            state=state,
            facts=facts,
            principal=principal,
            extra=extra,
            aliases=aliases,
            absent=absent,
            tools_lock=tools_lock,
            approver=approver,
            views=views,
            answers=answers,
            log=log,
            on_log_error=on_log_error,
            log_spool=log_spool,
            max_replans=max_replans,
            clock=clock,
            zone=zone,
            deadline=deadline,
            provenance_bytes=provenance_bytes,
            ledger=ledger,
            counters=counters,
            grants=grants,
            stop_file=stop_file,
            approvals=approvals,
        )
        policies = policies if isinstance(policies, Policies) else _loaded(policies)
        if not callable(getattr(policies, "session", None)):
            expected = "a policy file, or the result of 'load_policies'"
            raise InputError(f"policies is a {type(policies).__name__}; expected {expected}")
        self._policies = policies
        self.coverage = Coverage()
        self.accepted = AcceptedTools(None if tools_lock is None else read_tools_lock(tools_lock))
        self.approver, self.answers = approver, answers
        self.names = Names(self.policies, aliases, absent)
        self._state, self._counters, self._principal, self._extra = state, counters, principal, extra
        self._grants = grants
        self._time: dict[str, Any] = {
            name: value for name, value in (("clock", clock), ("zone", zone)) if value is not None
        }
        self._bound = {} if provenance_bytes == PROVENANCE_BYTES else {"provenance_bytes": provenance_bytes}
        if isinstance(self.policies, Policies):
            SessionCounters.of(self.policies, counters, time.time, "")  # a missing store is an error now, not at a call
        if isinstance(principal, Mapping):
            read_principal(principal)  # a mistake shows before the first call
        self._has_stops = stop_file is not None
        self._require_stops(self.policies)
        self._ledger: Ledger = MemoryLedger() if ledger is None else open_ledger(ledger)
        own = isinstance(self.policies, Policies)  # its sessions block only while a check is running
        self._shared = self._ledger.journal("", getattr(policies, "digest", "")) is not None
        if self._shared and not own:
            raise InputError("a ledger that keeps histories needs policies from 'load_policies'")
        self._conversations = Conversations(self._begin_session, keeps_history=self._shared)
        self._pool = DeadlinePool()
        sink = spooled_log(log, on_log_error, log_spool)
        records = None if sink is None else AuditRecords(sink, self._digest_of, required=on_log_error != "warn")
        self._on_difference = None if records is None or not own else records.difference
        self._recorder = CallRecorder(self._conversations, self.names, records, max_replans, bool(self._time))
        waits = (
            extra is not None
            or callable(state)
            or callable(facts)
            or callable(principal)
            or clock is not None
            or log is not None
            or ledger is not None
        )
        inline = own and self.policies.quick and not waits
        own_requests_only = approvals == "asked here"
        conversations, recorder = self._conversations, self._recorder
        decider = Decider(
            policies,
            own,
            self.names,
            self.accepted,
            facts,
            conversations,
            self._ledger,
            own_requests_only,
            recorder,
            stops_of(stop_file),
            views,
            self._principal_of if callable(principal) and own else None,
        )
        time_limit = TimeLimit(recorder, self._pool, deadline, inline=inline)
        self.lifecycle = LocalLifecycle(decider, recorder, time_limit, approver, own, self._shared, self._ledger.name)
        if own and policies.versions is not None:
            policies.versions.require(self._require_usable)

    # --- versions of the policy

    @property
    def policies(self) -> Policies:
        """The rules of new conversations: the current version."""
        return getattr(self._policies, "current", self._policies)

    @property
    def reloadable(self) -> bool:
        """Whether the rules come from a file, so that `reload` can load a new version."""
        return getattr(self._policies, "versions", None) is not None

    @property
    def may_escalate(self) -> bool:
        return bool(self.policies.requests) or any(
            rule.source.on_violation is Decision.ESCALATE for rule in self.policies.rules
        )

    @property
    def reads_usage(self) -> bool:
        return bool(getattr(self.policies, "reads_usage", False))

    def reload(self) -> Policies:
        """Loads the policy file again, for new conversations; see `Policies.reload`. Running ones keep their version.

        Raises:
            InputError: as `Policies.reload`, or the new rules name a tool that is probably a misspelling.
        """
        return self._policies.reload()

    def _require_stops(self, version: Policies) -> None:
        if not self._has_stops and (halts := getattr(version, "tool_halts", None)):  # the host's own have none
            raise InputError(NO_STOPS.format(min(halts)))

    def _require_usable(self, version: Policies) -> None:
        """Requires that a new version fits the tools of the agent, before any conversation gets it."""
        self._require_stops(version)
        for line in self.names.attached_to(version).lines():
            _log.warning("reloaded: %s", line)
        if not version.quick:
            self.lifecycle.time_limit.inline = False

    def _digest_of(self, conversation: str | None = None) -> str:
        """The digest of the version under which a conversation runs; of the current one if it has not begun."""
        digest = self._conversations.digest_of(conversation) if conversation else None
        return getattr(self.policies, "digest", "") if digest is None else digest

    def _version_of(self, conversation: str, extra: Any) -> Policies:
        """The version under which a conversation of the ledger began, if it is held; otherwise the current one."""
        begun = getattr(self._ledger, "policy_of", None)  # a ledger of the host's own may lack it
        digest, versions = (None if begun is None else begun(conversation)), self._policies.versions
        held = () if versions is None or digest is None else versions.held()
        return next((version for version in held if _digest_with(version, extra) == digest), self.policies)

    # --- attaching

    def attach(self, tools: Iterable[ToolSpec]) -> Coverage:
        """Compares the agent's tools with the rules; adapters call it again whenever the tools change.

        Raises:
            InputError: a rule names a tool that is probably a misspelling of one of these, or two have one name.
        """
        tools = list(tools)
        self.coverage = self.names.attach(tools)
        for line in (*self.coverage.lines(), *_unchecked(tools)):
            _log.warning("attached: %s", line)
        return self.coverage

    # --- approvals

    def has_request(self, call: HostCall) -> bool:
        """Whether this call has an approval request, answered or not."""
        try:
            return self._ledger.recorded_request(call) is not None
        except GuardError:  # used already, or unreadable: `resolve` reports which
            return True

    # --- a conversation

    def notes(self, conversation: str) -> dict[Any, Any]:
        """Returns the adapter's notes on a conversation, which last as long as the conversation.

        Raises:
            InputError: this guard has no such conversation.
        """
        return self._conversations.of(conversation).notes

    def turn(self, conversation: str) -> None:
        """Resets the replan counter after a new user message; a conversation that has not begun has none."""
        if not self._conversations.is_new(conversation):
            self._conversations.of(conversation).start_turn()

    def session(self, conversation: str) -> Session:
        """Returns the session of a conversation.

        Raises:
            InputError: no conversation with this id has begun.
        """
        return self._conversations.known(conversation).session

    def end(self, conversation: str) -> Verdict:
        """Ends a conversation and forgets it. Returns a verdict with the pending obligations.

        Raises:
            InputError: no conversation with this id has begun.
        """
        try:
            session = self.session(conversation)
        except NotBegunError:
            raise
        except GuardError as error:
            verdict = unchecked_verdict(f"the pending obligations are unknown: {error}", checked_by="policy")
        else:
            verdict = verdict_or_denial(session.finish)
            session.retire()
        digest = self._digest_of(conversation)
        ended = HostCall("", EMPTY, conversation, principal=self._conversations.principal(conversation))
        self._conversations.drop(conversation)
        self._ledger.end(conversation)
        return self._recorder.log_verdict(ended, verdict, "end", digest)

    def restore(self, snapshot: bytes, key: bytes, *, newest: int | None = None) -> Session:
        """Continues a conversation of another process from `session(id).snapshot(key)`.

        Raises:
            InputError: as `Policies.restore`; the conversation has begun here; or the guard has a ledger that keeps
                its history.
        """
        if self._shared:
            raise InputError("this guard continues the conversations of its ledger; restore no snapshot")
        shown: list[Conversation] = []
        host_state = self._state
        state = (lambda: host_state(shown[0].id)) if callable(host_state) else host_state
        extra = None if self._extra is None else self._extra(read_snapshot(snapshot, key, newest)["session"])
        options = {} if extra is None else {"extra": extra}
        session = self._policies.restore(
            snapshot,
            key,
            state=state,
            messages=lambda: shown[0].messages if shown else (),
            newest=newest,
            **options,
            **self._session_options(),
            **self._time,
        )
        shown.append(Conversation(session.id, session, restored=True))
        self._conversations.put(shown[0])
        return session

    @property
    def judges_answers(self) -> bool:
        """Whether final answers are judged: by a guard of answers, or by rules that speak of them.

        These may be rules of any conversation: of an earlier version of the policy, or for one task only.
        """
        return self.answers is not None or self._rules_judge_answers

    @property
    def _rules_judge_answers(self) -> bool:
        versions = getattr(self._policies, "versions", None)
        held = (self.policies,) if versions is None else versions.held()
        return self._extra is not None or any(getattr(version, "judges_answers", False) for version in held)

    # --- calls that their program runs

    @property
    def claimed_calls(self) -> ClaimRecorder:
        """Settles the calls with a `claim`, in any process that shares the ledger."""
        return ClaimRecorder(self._conversations, self._recorder)

    def release(self, conversation: str) -> None:
        """Forgets a conversation of the ledger in this process; its next call reads it again."""
        if self._shared:
            self._conversations.drop(conversation)

    def stage(self, operation: StagedOperation, work: Callable[[], Any], *, begins: bool) -> bool:
        """Carries out an operation in memory, if nothing in it has to wait. Returns whether it can be committed.

        Args:
            operation: the operation, on a conversation of a `FinalLedger`; gets its answer.
            work: does it, and returns the answer.
            begins: whether the conversation probably begins with it.
        """
        conversation = self._conversations.in_memory(operation.conversation)
        if not self._is_immediate or (not begins if conversation is None else conversation.hung_checks):
            return False
        lock = None if conversation is None else conversation.session.lock
        if lock is not None and not lock.acquire(blocking=False):
            return False
        try:
            with staging(operation):
                operation.answer = work()
        except Exception:  # noqa: BLE001 - whatever it is, the same operation meets it outside of a stage
            operation.fits = False
        finally:
            if lock is not None:
                lock.release()
        operation.seconds = self.lifecycle.time_limit.seconds
        operation.forget = partial(self.release, operation.conversation)
        operation.fits &= operation.change is not None
        if not operation.fits:
            self.release(operation.conversation)
        return operation.fits

    @cached_property
    def _is_immediate(self) -> bool:
        """Whether judging a call waits for nothing but the ledger and the log, and takes microseconds."""
        policies = self._policies
        if not isinstance(policies, Policies) or policies.versions is not None or self._extra is not None:
            return False
        return policies.quick and not (policies.approval_scopes or policies.shadow or policies.sources)

    # --- internals

    def _answered(
        self, conversation: str, agent_input: str, output: str, facts: Mapping[str, Any] | None
    ) -> Procedure[Verdict]:
        verdict = Verdict(Decision.ALLOW, checked_by="policy")
        if self.answers is not None:
            judge = partial(self._judge_and_log, conversation, agent_input, output, facts)
            verdict = yield Operation(judge, partial(asyncio.to_thread, judge))
        if verdict.label == 0 and self._rules_judge_answers:
            call = HostCall(ANSWER, answer_arguments(output), conversation, facts=facts or EMPTY)
            judged = yield from self.lifecycle.answer(call)
            judged = without_answer_text(self._conversations.policies_of(conversation) or self.policies, judged)
            return judged if self.answers is None else combine(verdict, judged)
        return verdict

    def _judge_and_log(self, conversation: str, *run: Any) -> Verdict:
        verdict = verdict_or_denial(partial(self._judge_answer, conversation, *run))
        return self._recorder.log_verdict(HostCall("agent_run", {"input": run[0]}, conversation), verdict, "answer")

    def _judge_answer(self, conversation: str, *run: Any) -> Verdict:
        self._conversations.of(conversation)  # an answer needs a conversation, too
        assert self.answers is not None
        return self.answers.guard(*run)

    def _begin_session(
        self, name: str, messages: Callable[[], Sequence[Mapping[str, Any]]]
    ) -> tuple[Session, ConversationJournal | None]:
        state, extra = self._state_of(name), None if self._extra is None else self._extra(name)
        options = {**self._time, **self._bound, **self._session_options()}
        if self._grants is not None:
            options["grants"] = self._grants(name)
        if self._principal is not None:
            options["principal"] = self._principal_of(name)
        if not self._shared:
            options |= {} if extra is None else {"extra": extra}
            return self._policies.session(state, id=name, messages=messages, **options), None
        version = self._version_of(name, extra).with_extra(extra)
        journal = self._ledger.journal(name, version.digest)
        return Session(version, state, id=name, messages=messages, journal=journal, **options), journal

    def _session_options(self) -> dict[str, Any]:
        options = {"on_difference": self._on_difference, "counters": self._counters}
        return {name: option for name, option in options.items() if option is not None}

    def may_call(self, tool: str, conversation: str | None) -> bool:
        """Whether the rules allow some call of a tool, by its name in the host, for the principal of a conversation."""
        principal = None
        try:
            if self._principal is not None and conversation is not None:
                principal = read_principal(self._principal_of(conversation))
        except InputError:
            return True  # a list protects nothing; the call is denied
        call = SessionCall(self.names.resolve(tool), EMPTY)
        call.principal = None if principal is None else principal.value
        return not self.policies.never_allows(call)

    def _principal_of(self, name: str) -> Mapping[str, Any] | None:
        if not callable(self._principal):
            return self._principal
        try:
            return self._principal(name)
        except Exception as error:  # noqa: BLE001 - a host's function
            _log.error("the principal of a conversation is unavailable: %s", error_text(error))
            raise InputError(f"the principal is unavailable: {type(error).__name__}") from None

    def _state_of(self, conversation: str) -> Any:
        return partial(self._state, conversation) if callable(self._state) else self._state


def _loaded(policies: Any) -> Policies:
    """The policies of files; other objects are policies of the host's own."""
    loaded: Policies = load_policies(policies) if isinstance(policies, str | Path | list | tuple) else policies
    return loaded


def _digest_with(version: Policies, extra: Any) -> str | None:
    """The digest of a version with more rules for one task; None if it does not fit them, as another version does."""
    try:
        return version.with_extra(extra).digest
    except InputError:
        return None


def _unchecked(tools: Iterable[ToolSpec]) -> list[str]:
    """Returns the warnings about the tools' schemas, a line each."""
    why = "RE2 cannot compile the pattern, so only the tool itself checks it:"
    return [f"{why} {pattern} (of {tool.name})" for tool in tools for pattern in unchecked_patterns(tool.schema)]


# --- one call


def run(
    guard: EnforcementPoint, call: HostCall, execute: Callable[[Arguments], Any], outcome: ReadOutcome = Outcome
) -> Any:
    """Judges a call, runs it with the judged arguments, and records its outcome.

    Exceptions of `execute` pass through: an Exception is recorded as a failure, and an interrupted call stays in
    flight.

    Args:
        guard: decides on the call.
        call: the proposed call.
        execute: runs the tool.
        outcome: maps the result of `execute` to the call's outcome.

    Raises:
        ToolDenied: the call may not run; carries the verdict.
    """
    return drive(guard.lifecycle.run(call, execute, outcome))


async def arun(
    guard: EnforcementPoint,
    call: HostCall,
    execute: Callable[[Arguments], Awaitable[Any]],
    outcome: ReadOutcome = Outcome,
) -> Any:
    """Judges a call, runs it with a coroutine function, and records its outcome."""
    return await adrive(guard.lifecycle.run(call, execute, outcome))
