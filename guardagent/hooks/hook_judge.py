"""Decides on the events of one installed hook, in one workspace."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from guardagent.enforcement import Approval, HostCall, Outcome, SqliteLedger, ToolGuard
from guardagent.enforcement.approval import BY_HOST
from guardagent.enforcement.conversations import NotBegunError
from guardagent.errors import GuardError, InputError, error_text
from guardagent.hooks.calls import judged_arguments
from guardagent.hooks.hook_event import HookAnswer, HookDecision, HookEvent, HookHost, HookKind
from guardagent.hooks.hook_state import COUNTERS_FILE, STOP_FILE, HookLock, PendingAsks, record_unchecked
from guardagent.hooks.protection import Protection
from guardagent.log import AuditLog
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.file.policy_file import policy_contents
from guardagent.server.state import open_state
from guardagent.session.calls import ClaimConflictError, NotClaimedError
from guardagent.types import Decision, Verdict, denial_message, rule_of_error

# --- the decisions

CHECK_SECONDS = 15.0
"""The limit of a check, below that of the client."""
MAX_REPLANS = 1000
"""A hook cannot hand control back to the user; `guardagent:runaway` stops an agent that repeats itself."""
_AGAIN = ":again"
_ELSEWHERE = "The operator has people asked elsewhere."
_REJECTED = "A person has rejected this call."
_DENIED = "GuardAgent: This is not allowed:"
_ON_TRIAL = "GuardAgent (on trial):"
_RESPONSES = {
    Decision.WARN: "warning of",
    Decision.ESCALATE: "would be put to a person by",
    Decision.DENY: "would be denied by",
    Decision.HALT: "would be denied, and end the session, by",
}
_log = logging.getLogger("guardagent")


def conversation_of(lock: HookLock, event: HookEvent) -> str:
    """Returns the name of the conversation of an event."""
    return f"{lock.host}/{event.session}"


class HookJudge:
    """Judges the tool calls of one hook. Its state is in SQLite, so that parallel processes share it.

    Args:
        lock: the lock of the hook.
        host: the host.
        folder: the state folder.
        workspace: the folder of the session; empty if it is not known.

    Raises:
        GuardError: the policy is invalid or has changed, or the state cannot be opened.
    """

    def __init__(self, lock: HookLock, host: HookHost, folder: Path, workspace: str = "") -> None:
        self._lock, self._host = lock, host
        self._host_decides = host.asks and lock.ask == "host"
        self._policies = lock.load(workspace)
        self._is_trial, enforced = lock.mode == "trial", lock.read()
        self._denies_unlisted = self._is_trial and enforced.unlisted == "deny"
        self._responses = {rule.id: rule.on_violation for rule in enforced.rules}
        self._files = [
            Path(lock.policy),
            *(policy_content.path for policy_content in policy_contents(Path(lock.policy))),
        ]
        self._stamps: list[tuple[int, ...] | None] = []
        files = host.agent_files(Path(workspace) if workspace else None)
        environment = Path(sys.executable).parents[1] / "pyvenv.cfg"
        guarded = [str(folder), lock.settings, str(Path(__file__).parents[1]), str(environment), *map(str, files)]
        self._protection = Protection(guarded, sources=[lock.source])
        self.asks = PendingAsks(open_state(f"sqlite:{folder / 'asks.db'}"))
        self._ledger = SqliteLedger(folder / "ledger.db")
        self._log = AuditLog(folder / "log.db")
        self._guard = ToolGuard(
            self._policies,
            ledger=self._ledger,
            log=self._log,
            counters=f"sqlite:{folder / COUNTERS_FILE}",
            deadline=CHECK_SECONDS,
            max_replans=MAX_REPLANS,
            stop_file=folder / STOP_FILE,
        )

    def answer(self, event: HookEvent) -> HookAnswer:
        """Answers an event. Never raises: an error before a tool runs is a denial."""
        try:
            match event.kind:
                case HookKind.BEFORE:
                    return self._before(event)
                case HookKind.AFTER:
                    self._after(event)
                case HookKind.PROMPT:
                    self._guard.turn(self._conversation(event))
                    self._end_lost_calls(event)
                case HookKind.START if event.resumed:
                    self._end_lost_calls(event)
                case HookKind.STOP:
                    self._end_lost_calls(event)
                    return self._stop(event)
        except Exception as error:  # noqa: BLE001 - every error is an answer
            reason = str(error) if isinstance(error, GuardError) else error_text(error)
            _log.error("%s: %s", event.name, reason)
            if event.kind is HookKind.BEFORE:
                return HookAnswer(HookDecision.DENY, reason)
        return HookAnswer()

    def forget(self, conversations: Iterable[str]) -> None:
        """Forgets sessions that were deleted."""
        for conversation in conversations:
            self._guard.release(conversation)

    def _require_locked_policy(self) -> None:
        """Requires that the files of the policy are those that were locked.

        Raises:
            InputError: they are not.
        """
        stamps = [_stamp_of(path) for path in self._files]
        if stamps != self._stamps:
            self._lock.read()
            self._stamps = stamps

    # --- before a tool runs

    def _before(self, event: HookEvent) -> HookAnswer:
        self._require_locked_policy()
        if self._ledger.policy_of(self._conversation(event)) not in (None, self._lock.digest):
            raise InputError("this session began under another version of the policy; start a new session of the agent")
        args = judged_arguments(event.tool, event.args, event.cwd)
        call = self._call(event, args)
        problem = self._protection.problem(event.tool, args, event.cwd)
        shown = frozenset[str]() if problem is None else self._protected(event, call, problem)
        if isinstance(shown, HookAnswer):
            return shown
        verdict = self._guard.before(call)
        if verdict.decision is Decision.ESCALATE:
            if problem is not None and shown.issuperset(self._objections(verdict)):
                return self._approved(call)  # a person approved it, and saw why rules ask
            return self._escalated(event, call, verdict)
        answer = self._answer_of(verdict)
        if self._denies_unlisted and not any(event.tool in rule.mentioned_tools for rule in self._policies.rules):
            note = f"{_ON_TRIAL} would be denied: no rule covers the tool {event.tool!r} ('unlisted: deny')"
            return replace(answer, note="\n".join(filter(None, [answer.note, note])))
        return answer

    def _approved(self, call: HostCall) -> HookAnswer:
        return self._answer_of(self._guard.resolve(call, Approval("approve", of=call.digest, by="guardagent watch")))

    def _answer_of(self, verdict: Verdict) -> HookAnswer:
        if verdict.label == 0:
            return HookAnswer(note="\n".join(self._warnings(verdict)))
        return HookAnswer(HookDecision.DENY, _feedback(verdict) or "denied")

    def _warnings(self, verdict: Verdict) -> Iterator[str]:
        """Yields the objections to a call that may run; on trial, with the response that they will have."""
        start = _ON_TRIAL if self._is_trial else "GuardAgent:"
        for at, objection in enumerate(self._objections(verdict)):
            is_violation = at < len(verdict.violations)
            response = self._responses[verdict.violations[at].policy] if is_violation else Decision.DENY
            yield f"{start} {_RESPONSES[response]} {objection}"

    def _objections(self, verdict: Verdict) -> tuple[str, ...]:
        """The objections of rules: their violations, then what could not be checked."""
        violations = [f"{violation.policy}: {violation.message}" for violation in verdict.violations]
        rules = (f"{rule}: " if (rule := rule_of_error(error, self._policies.ids)) else "" for error in verdict.errors)
        errors = zip(rules, verdict.errors, strict=True)
        return (*violations, *(f"{rule}could not be checked: {error.removeprefix(rule)}" for rule, error in errors))

    def _protected(self, event: HookEvent, call: HostCall, problem: str) -> HookAnswer | frozenset[str]:
        """Returns the denial of a call that would change the guard; if a person has approved it, what was shown.

        Only `guardagent watch` asks about it: who answers in the host is not known. An approval, which counts once, is
        for all reasons that there are: the change of the guard, and those of rules that escalate.
        """
        verdict = self._guard.preview(call)
        objections = self._objections(verdict)
        reasons = (problem, *(objections if verdict.decision is Decision.ESCALATE else ()))
        answer = self.asks.answer_of(self._lock.host, event.session, call.tool, call.args)
        is_used = answer is not None and answer.status == "approved" and self.asks.use(answer.name)
        if answer is not None and is_used and {*reasons} <= {*answer.reasons}:
            return frozenset(answer.reasons)
        self._guard.refuse(call, problem)
        if answer is not None and answer.status == "rejected":
            return HookAnswer(HookDecision.DENY, _REJECTED)
        denial = HookAnswer(HookDecision.DENY, "\n".join([_DENIED, *(f"- {line}" for line in (*objections, problem))]))
        if verdict.decision in (Decision.DENY, Decision.HALT):  # which no person lifts
            return denial
        self.asks.request(self._lock.host, event.session, call.tool, call.args, reasons)
        return denial.left_to_watch("A person decides on it.")

    def _escalated(self, event: HookEvent, call: HostCall, verdict: Verdict) -> HookAnswer:
        answer = self.asks.answer_of(self._lock.host, event.session, call.tool, call.args)
        if answer is not None and answer.status == "rejected":
            return HookAnswer(HookDecision.DENY, _REJECTED)
        if answer is not None and answer.status == "approved" and self.asks.use(answer.name):
            return self._approved(call)
        question = HookAnswer(HookDecision.ASK, _feedback(verdict) or "A person has to decide on this call.")
        can_ask = self._host.asks_about(event)
        if self._host_decides and can_ask:  # an answer in `watch` would come too late, and let a later call run
            return question
        self.asks.request(self._lock.host, event.session, call.tool, call.args, self._objections(verdict))
        return question.left_to_watch(_ELSEWHERE if can_ask else "This host cannot ask its user here.")

    # --- after it has run

    def _after(self, event: HookEvent) -> None:
        args = judged_arguments(event.tool, event.args, event.cwd)
        outcome = Outcome(event.output, event.failed)
        conversation = self._conversation(event)
        call_id = self._last_id(event) if event.call_id else self._open_call(conversation, event.tool, args)
        claimed = self._claimed(conversation, call_id)
        if not event.ran:
            if claimed is not None:
                self._guard.claimed_calls.withdraw(conversation, call_id, "the host did not run it")
            return
        try:
            if claimed is not None and self._was_edited(event, claimed):
                self._ran_without_verdict(replace(event, call_id=f"{call_id}:edited"), args, outcome)
                self._guard.claimed_calls.withdraw(conversation, call_id, "it ran with other arguments")
            else:
                self._guard.claimed_calls.record(conversation, call_id, outcome)
        except ClaimConflictError:
            _log.warning("call %r has another outcome already", call_id)
        except (NotClaimedError, NotBegunError):
            self._ran_without_verdict(event, args, outcome)

    def _was_edited(self, event: HookEvent, claimed: SessionCall) -> bool:
        """Whether a call ran with other arguments than those judged: another hook changes them, or who is asked."""
        request = (claimed.claim or {}).get("request")
        return bool(event.call_id) and self._host.reports_edits and request != _key(event.tool, event.args)

    def _ran_without_verdict(self, event: HookEvent, args: dict[str, Any], outcome: Outcome) -> None:
        """Records a call that ran although no verdict allowed it: the host let it run, or nobody decided."""
        call = self._call(event, args)
        self.asks.close(self._lock.host, event.session, call.tool, call.args)
        if self._host_decides and self._guard.has_request(call):
            verdict = self._guard.resolve(call, Approval("approve", of=call.digest, by=BY_HOST))
            if verdict.label == 0:
                self._guard.claimed_calls.record(self._conversation(event), call.id, outcome)
                return
        unchecked = record_unchecked(
            self._guard.claimed_calls.session(self._conversation(event)), self._log, call, outcome
        )
        if unchecked is not None:
            _log.error("a call of %r ran without a verdict that allows it: %s", event.tool, unchecked.reasons)

    # --- the end of a turn

    def _end_lost_calls(self, event: HookEvent) -> None:
        """Records that the outcome is unknown of each call that cannot run any more without a report of the host.

        Around a turn these are the calls of the agent that the event is of, and none of its sub-agents, which may work
        in the background; all calls if a session goes on in a new process. A command that goes on in the background has
        been reported when it went there.
        """
        conversation = self._conversation(event)
        for call in self._guard.claimed_calls.session(conversation).history:
            if (
                call.status is None
                and call.id is not None
                and (event.kind is HookKind.START or call.agent == event.agent)
            ):
                self._guard.claimed_calls.record(conversation, call.id, Outcome(None, None))

    def _stop(self, event: HookEvent) -> HookAnswer:
        """Holds the agent, once, if it still has to do something; on trial, it only warns."""
        try:
            pending = {} if event.repeated else self._guard.claimed_calls.session(self._conversation(event)).obligations
        except NotBegunError:
            pending = {}
        if not pending:
            return HookAnswer()
        if self._is_trial:
            warnings = (f"{_ON_TRIAL} {rule} is still due: {what}" for rule, what in pending.items())
            return HookAnswer(note="\n".join(warnings))
        lines = [f"- {rule}: {what}" for rule, what in pending.items()]
        return HookAnswer(HookDecision.DENY, "\n".join(["Before you end, these are still due:", *lines]))

    # --- calls

    def _conversation(self, event: HookEvent) -> str:
        return conversation_of(self._lock, event)

    def _call(self, event: HookEvent, args: dict[str, Any]) -> HostCall:
        conversation = self._conversation(event)
        if not event.call_id:
            call_id, claim = self._new_id(conversation, event.tool, args), secrets.token_hex(8)
        else:
            call_id, claim = self._last_id(event), _key(event.tool, event.args)
            earlier = self._claimed(conversation, call_id)
            call_id += _AGAIN if earlier is not None and earlier.status == "unknown" else ""
        return HostCall(event.tool, args, conversation, call_id, event.agent, claim=claim)

    def _last_id(self, event: HookEvent) -> str:
        """Returns the id of the last proposal of a call: hosts propose one again that another hook had deferred."""
        conversation, call_id = self._conversation(event), event.call_id
        while self._claimed(conversation, call_id + _AGAIN) is not None:
            call_id += _AGAIN
        return call_id

    def _claimed(self, conversation: str, call_id: str) -> SessionCall | None:
        try:
            return self._guard.claimed_calls.session(conversation).claimed(call_id)
        except NotBegunError:
            return None

    def _new_id(self, conversation: str, tool: str, args: dict[str, Any]) -> str:
        """Returns an id for a call of a host that has none: a hash of the call, and its number."""
        prefix = _key(tool, args)
        return f"{prefix}-{len(self._calls(conversation, prefix))}"

    def _open_call(self, conversation: str, tool: str, args: dict[str, Any]) -> str:
        """Returns the id of the oldest such call that is in flight; that of the next one if there is none."""
        prefix = _key(tool, args)
        calls = self._calls(conversation, prefix)
        return next((call.id for call in calls if call.status is None), f"{prefix}-{len(calls)}")

    def _calls(self, conversation: str, prefix: str) -> list[Any]:
        history = self._guard.claimed_calls.session(conversation).history
        return [call for call in history if call.id is not None and call.id.startswith(f"{prefix}-")]


def _stamp_of(path: Path) -> tuple[int, ...] | None:
    """Returns what changes with a file; its time of change cannot be set by hand."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino


def _key(tool: str, args: Mapping[str, Any]) -> str:
    text = json.dumps([tool, dict(args)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _feedback(verdict: Verdict) -> str:
    """The denial for the agent and its user, who see the call anyway."""
    text = denial_message(verdict, call=False)
    return f"GuardAgent: {text}" if text else ""
