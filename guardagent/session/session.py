"""A session: one conversation of an agent, whose calls are judged before they run.

    check    judges a proposed call; an allowed call is in flight from then on
    use      starts the call
    record   records its outcome
    withdraw cancels a call that never runs
    finish   ends the conversation and reports pending obligations

Only recorded calls count as history. Several threads can share a session; their calls are processed one at a time.
"""

from __future__ import annotations

import datetime as dt
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

from guardagent.errors import InputError
from guardagent.policy.evaluation.monitor_interface import HostClock
from guardagent.policy.policies import Policies
from guardagent.policy.provenance.recorder import LIMIT as PROVENANCE_BYTES
from guardagent.session.observations import Observations
from guardagent.session.permit import Permit
from guardagent.session.proofs import AgentGraph, Proofs
from guardagent.session.snapshot import read_snapshot, take_over, write_snapshot
from guardagent.types import Decision, Denial, Event, Verdict, thaw

if TYPE_CHECKING:
    from guardagent.session.counters import CounterStore
    from guardagent.session.shadow import OnDifference

MAX_ORDERED = 6  # calls proposed together that are judged in every order


class Session(Observations):
    """One conversation, under the rules of a policy.

    Args:
        policies: the rules.
        state: the state for `state(...)`: a live mapping or object, or a callable that returns the current state.
        facts: the facts of the host about the whole conversation.
        messages: the chat messages (`role`, `content`) for rules that read the conversation: a live list, or a callable
            that returns the current ones.
        id: the id of the session; random by default.
        permit_seconds: the lifetime of a permit.
        clock: returns seconds since the epoch, or a datetime with its zone. It gives `now`, the times of the calls and
            the lifetime of permits.
        zone: the time zone of `hour(now)` and the like; by default that of the datetimes of the clock.
        journal: shares the history with other processes.
        provenance_bytes: the maximum size of the index for `sources(...)`; beyond it sources are unknown.
        counters: the store of the policy's counters across conversations, or its address, such as `sqlite:PATH`.
        principal: on whose behalf the agent acts: a mapping with `id`, `roles`, `tenant` and `on_behalf_of`. It never
            changes.
        on_behalf_of: the principal for which that one acts; the roles of both count.
        on_difference: receives the differences of the policy's candidate (`shadow:`), in a thread of its own; by
            default they go to the logger `guardagent`. With False, the candidate does not judge this session.
    """

    def check_all(self, calls: Sequence[tuple[str, Mapping[str, Any]]], **options: Any) -> list[Verdict]:
        """Judges calls that are proposed together and may run in any order.

        A call is allowed if it complies in every order with the calls allowed before it. More than six calls are judged
        only in the given order. Allowed calls are recorded as in flight, in the given order.
        """
        with self._lock:
            if not 1 < len(calls) <= MAX_ORDERED:
                return [self.check(tool, args, **options) for tool, args in calls]
            base = self.fork()
            allowed: list[tuple[str, Mapping[str, Any]]] = []
            verdicts = []
            for call in calls:
                denial = _in_other_orders(base, [*allowed, call], options)
                verdict = (
                    self.check(*call, **options) if denial is None else self._jointly_denied(denial, call, options)
                )
                allowed += [call] if verdict.label == 0 else []
                verdicts.append(verdict)
            return verdicts

    def _jointly_denied(
        self, denial: Verdict, call: tuple[str, Mapping[str, Any]], options: Mapping[str, Any]
    ) -> Verdict:
        """The verdict on a call that some order denies. A halt or escalation in the given order stands."""
        alone = self.check(*call, **{**options, "reserve": False})
        if alone.decision >= Decision.ESCALATE:
            return self.check(*call, **options)
        return replace(denial, decision=Decision.DENY)

    def finish(self) -> Verdict:
        """Ends the conversation: pending obligations are violations. Every outcome of the calls in flight counts."""
        started = time.perf_counter()
        with self._lock:
            self._lapse()
            judgement = self._conversation.pending_obligations()
            notes, details = self._notes()
            violations, withheld = self._violations(judgement, None)
            reasons = [f"at the end: {violation.message}" for violation in violations]
            verdict = Verdict(
                judgement.decision(),
                (*reasons, *judgement.reasons, *notes),
                violations,
                judgement.errors,
                details,
                checked_by="policy",
                elapsed_ms=(time.perf_counter() - started) * 1000,
                denial=Denial(withheld=withheld),
            )
            if self._shadow is not None:
                self._shadow.end(verdict, self._conversation.context.state_now)
            return verdict

    @property
    def obligations(self) -> dict[str, str]:
        """The pending obligations: rule id -> remedy or message, if the conversation ended now."""
        with self._lock:
            violations, _ = self._violations(self._conversation.pending_obligations(), None)
            return {violation.policy: violation.remedy or violation.message for violation in violations}

    @property
    def status(self) -> dict[str, str]:
        """The id of each temporal rule -> `satisfied` for good, `violated` for good, or `open`."""
        with self._lock:
            return self._conversation.status()

    @property
    def history(self) -> tuple[Event, ...]:
        """The recorded calls in order. Calls in flight have no status yet."""
        with self._lock:
            return self._conversation.history()

    @property
    def in_flight(self) -> tuple[Permit, ...]:
        """The permits of the calls in flight."""
        with self._lock:
            permits = [self.permit_of(call) for call in self._conversation.context.in_flight]
            return tuple(permit for permit in permits if permit is not None)

    @property
    def halted(self) -> bool:
        return self._halted is not None

    def rely_on(self, proofs: Proofs, graph: AgentGraph) -> None:
        """Skips rules that are proved for every run of the agent's graph.

        Calls of tools outside of the graph are judged by all rules. After the first such call, nothing is skipped.

        Args:
            proofs: the result of `guardagent.workflow.analysis.rules.prove`.
            graph: the current graph.

        Raises:
            InputError: `proofs` is not a result of `prove`, or is for another graph, other sources or another policy.
        """
        with self._lock:
            self._conversation.skipped = frozenset()
            if not isinstance(proofs, Proofs):
                raise InputError(
                    f"'proofs' has the type {type(proofs).__name__!r}; expected the result of 'prove(...)'"
                )
            if not proofs.hold_for(graph, self.policies):
                raise InputError("the proofs do not match the current graph and policy; call 'prove(...)' again")
            tools = frozenset(tool for node in graph.nodes for tool in node.tools)
            proved = [number for number, rule in enumerate(self.policies.rule_of) if rule.id in proofs.rules]
            self._conversation.rely_on(tools, frozenset(proved))

    def graph_changed(self) -> None:
        """Notes that the agent's graph changed: no rule is skipped until `rely_on` is called with new proofs."""
        with self._lock:
            self._conversation.skipped = frozenset()

    @property
    def sequence(self) -> int:
        """A number that grows with every reserved or recorded call, approval and halt."""
        conversation = self._conversation
        return 2 * len(conversation.calls) - len(conversation.context.in_flight) + self._approved + self.halted

    def snapshot(self, key: bytes) -> bytes:
        """An authenticated snapshot for another process to continue the session: see `Policies.restore`.

        Raises:
            InputError: the key is too short, or a value cannot be written as JSON.
        """
        with self._lock:
            content = {
                "policy": self.policies.digest,
                "session": self.id,
                "sequence": self.sequence,
                "facts": thaw(self._facts),
                "principal": None if self._principal is None else thaw(self._principal),
                "halted": self._halted,
                "approved": self._approved,
                "permit_seconds": self._permit_seconds,
                "provenance_bytes": self._provenance_bytes,
                **self._conversation.dumped(),
            }
            return write_snapshot(self, content, key)

    @classmethod
    def restore(
        cls,
        policies: Policies,
        snapshot: bytes,
        key: bytes,
        *,
        state: Any = None,
        messages: Any = (),
        newest: int | None = None,
        clock: HostClock = time.time,
        zone: dt.tzinfo | str | None = None,
        counters: CounterStore | str | None = None,
        on_difference: OnDifference | None = None,
    ) -> Session:
        """Restores a session: see `Policies.restore`."""
        content = read_snapshot(snapshot, key, newest)
        policies = policies.version(content["policy"])
        seconds = content["permit_seconds"]
        name = content["session"]
        session = cls(
            policies,
            state,
            content["facts"],
            messages=messages,
            id=name,
            permit_seconds=seconds,
            clock=clock,
            zone=zone,
            provenance_bytes=content.get("provenance_bytes", PROVENANCE_BYTES),
            counters=counters,
            principal=content.get("principal"),
            on_difference=on_difference,
        )  # fmt: skip
        session._conversation.load(content)
        session._halted, session._approved = content["halted"], content["approved"]
        take_over(session, content)
        session._settle_counters(call for call in session._conversation.calls if call.status is not None)
        session._follow()
        return session

    def fork(self) -> Session:
        """A copy for trial calls: they do not affect this session and have no permits."""
        with self._lock:
            self._lapse()
            fork = Session(
                self.policies,
                facts=self._facts,
                id=f"{self.id}/{secrets.token_hex(4)}",
                permit_seconds=self._permit_seconds,
                counters=None if self._counters is None else self._counters.trial_store(),
                principal=self.principal,
                on_difference=False,
            )
            fork._clock = self._clock
            fork._conversation, fork._halted, fork._mementos = self._conversation.copied(), self._halted, []
            fork._conversation.context.counters = fork._counters
            return fork

    def mark(self) -> int:
        """A mark to which a fork can be rolled back."""
        return len(self._conversation.calls)

    def rollback(self, mark: int = 0) -> int:
        """Removes trial calls of a fork, newest first, down to a mark.

        Stops at a recorded call and at a call that is in flight in the session itself: these are never removed.

        Returns:
            The number of remaining calls.
        """
        with self._lock:
            calls = self._conversation.calls
            while self._mementos and len(calls) > mark and calls[-1].status is None:
                if self._counters is not None:
                    self._counters.release(calls[-1])
                self._conversation.forget(self._mementos.pop())
            return len(calls)


def _in_other_orders(base: Session, calls: Sequence[Any], options: Mapping[str, Any]) -> Verdict | None:
    """A denial in some other order of the calls, or None. The given order is judged when the calls are reserved."""
    for order in list(permutations(calls))[1:]:
        trial = base.fork()
        for tool, args in order:
            verdict = trial.check(tool, args, **options)
            if verdict.label:
                names = " then ".join(name for name, _ in order)
                reason = f"the calls were proposed together, and the order {names} is not allowed"
                return replace(verdict, reasons=(*verdict.reasons, reason), grant=None)
    return None
