"""Proposals, approvals, crashes and restarts in any order, compared with a small reference model.

The model consists of sets and counters, and shares no code with the guard. At every step the guard must
decide as the model does: it runs no call that the model forbids, and denies no call that it allows.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from guardagent import Decision, InputError
from guardagent.enforcement import Approval, HostCall, Outcome, SqliteLedger, ToolGuard
from guardagent.policy.load import load_policies
from tests.tiers import examples

AT_MOST = 3
NEEDS_A_PERSON = 100
POLICY = f"""
version: 1
policies:
  - id: authenticated
    temporal: G(tool:refund -> O tool:authenticate)
  - id: at_most
    temporal: forall(refund(order=o), count(f:refund(order=o)) < {AT_MOST})
  - id: large
    temporal: forall(refund(amount=a), a <= {NEEDS_A_PERSON})
    on_violation: escalate
"""
FOLDER = Path(tempfile.mkdtemp(prefix="interleavings-"))
(FOLDER / "policy.yaml").write_text(POLICY)
POLICIES = load_policies(FOLDER / "policy.yaml")

SOME = st.integers(0, 3)  # an index among the newest items
ORDERS = st.sampled_from(["W1", "W1", "W2"])
AMOUNTS = st.sampled_from([150, 250, 50])


def newest(of: Sequence[Any], which: int) -> Any:
    return of[-1 - which % len(of)]


# --- the model


@dataclass(frozen=True)
class Call:
    """A call that a host proposes."""

    id: str
    tool: str
    order: str = ""
    amount: int = 0

    def host_call(self, conversation: str) -> HostCall:
        args = {"order": self.order, "amount": self.amount} if self.tool == "refund" else {}
        return HostCall(self.tool, args, conversation, id=self.id)


@dataclass(eq=False)
class AllowedCall:
    """An allowed call, with the process that allowed it."""

    call: Call
    process: int
    used: bool = False
    ran: bool = False


@dataclass
class ReferenceModel:
    """The calls that may run."""

    logged_in: bool = False
    taken: Counter[str] = field(default_factory=Counter)  # order -> refunds that were allowed and not withdrawn
    pending: dict[Call, Call] = field(default_factory=dict)  # a pending call -> the originally proposed call
    rejected: set[Call] = field(default_factory=set)
    answered: set[Call] = field(default_factory=set)  # calls with a used approval; never removed

    def rules_say(self, call: Call) -> Decision:
        if call.tool != "refund":
            return Decision.ALLOW
        if not self.logged_in or self.taken[call.order] >= AT_MOST:
            return Decision.DENY
        return Decision.ESCALATE if call.amount > NEEDS_A_PERSON else Decision.ALLOW

    def proposed(self, call: Call, origin: Call | None = None) -> Decision:
        decision = self.rules_say(call)
        if decision is Decision.ESCALATE:
            root = self.pending.get(origin or call, origin or call)
            if {call, root} & self.answered:
                return Decision.DENY
            self.pending[call] = root
            self.rejected.discard(call)
        elif decision is Decision.ALLOW:
            self.taken[call.order] += 1
        return decision

    def approved(self, call: Call, left: Call) -> Decision:
        """A reviewer approves a call unchanged or edited; no edit makes it a call that was rejected."""
        root = self.pending.get(call)
        if root is None or {call, left} & self.rejected or {call, root} & self.answered:
            return Decision.DENY
        decision = self.proposed(left, call) if left != call else self.rules_say(call)
        if left == call and decision is Decision.ESCALATE:
            self.taken[call.order] += 1
            decision = Decision.ALLOW
        if decision is Decision.ALLOW:
            self.answered |= {call, root}
        return decision

    def ended(self) -> None:
        self.logged_in = False
        self.taken.clear()
        self.pending.clear()
        self.rejected.clear()


# --- the machine


class Alone(RuleBasedStateMachine):
    """A guard with a ledger in memory."""

    numbers = itertools.count()

    def __init__(self) -> None:
        super().__init__()
        self.conversation = f"c{next(self.numbers)}"
        self.guards = self.begun()
        self.model = ReferenceModel()
        self.calls: list[Call] = []
        self.permits: list[AllowedCall] = []
        self.paid: list[Call] = []

    def begun(self) -> list[ToolGuard]:
        return [ToolGuard(POLICIES)]

    @initialize(logs_in=st.booleans())
    def may_log_in(self, logs_in: bool) -> None:
        if logs_in:
            self.log_in()

    def log_in(self) -> None:
        self.propose_login(0)
        login = self.permits.pop().call.host_call(self.conversation)
        self.guards[0].use(login)
        self.guards[0].after(login, Outcome("done"))
        self.model.logged_in = True

    def process_at(self, at: int) -> int:
        return at % len(self.guards)

    def expect(self, process: int, call: Call, verdict: Any, expected: Decision) -> None:
        assert verdict.decision is expected, (call, verdict, self.model)
        if call not in self.calls:
            self.calls.append(call)
        if expected is Decision.ALLOW:
            self.permits.append(AllowedCall(call, process))

    # proposals

    @rule(at=SOME, order=ORDERS, amount=AMOUNTS)
    def propose_refund(self, at: int, order: str, amount: int) -> None:
        self.propose(self.process_at(at), Call(f"{len(self.calls)}", "refund", order, amount))

    @rule(at=SOME)
    def propose_login(self, at: int) -> None:
        self.propose(self.process_at(at), Call(f"{len(self.calls)}", "authenticate"))

    @precondition(lambda self: self.calls)
    @rule(at=SOME, which=SOME)
    def propose_again(self, at: int, which: int) -> None:
        """The host retries, or resumes an old state: the same call with the same id."""
        self.propose(self.process_at(at), newest(self.calls, which))

    def propose(self, process: int, call: Call) -> None:
        verdict = self.guards[process].before(call.host_call(self.conversation))
        self.expect(process, call, verdict, self.model.proposed(call))

    # people

    @precondition(lambda self: self.model.pending)
    @rule(at=SOME, which=SOME, times=st.integers(1, 2))
    def approve(self, at: int, which: int, times: int) -> None:
        """Approves a call once or twice, even if already answered."""
        call = newest(list(self.model.pending), which)
        for more in range(times):
            self.resolve(self.process_at(at + more), call, call, "approve")

    @precondition(lambda self: self.calls)
    @rule(at=SOME, which=SOME)
    def approve_any_call(self, at: int, which: int) -> None:
        """Approves a call, even one that was not escalated."""
        call = newest(self.calls, which)
        self.resolve(self.process_at(at), call, call, "approve")

    @precondition(lambda self: self.model.pending)
    @rule(at=SOME, which=SOME, amount=AMOUNTS)
    def edit(self, at: int, which: int, amount: int) -> None:
        call = newest(list(self.model.pending), which)
        left = replace(call, amount=amount)
        if left != call:
            self.resolve(self.process_at(at), call, left, "edit")

    def resolve(self, process: int, call: Call, left: Call, choice: Any) -> None:
        shown, args = call.host_call(self.conversation), left.host_call(self.conversation).args
        approval = Approval(choice, args if choice == "edit" else {}, of=shown.digest)
        self.expect(process, left, self.guards[process].resolve(shown, approval), self.model.approved(call, left))

    @precondition(lambda self: len(self.calls) > 1)
    @rule(at=SOME, which=SOME, other=SOME)
    def approve_something_else(self, at: int, which: int, other: int) -> None:
        """Answers an older request, a changed call, or an unknown one."""
        call, shown = newest(self.calls, which), newest(self.calls, other)
        for of in (shown.host_call(self.conversation).digest, None):
            if shown != call or of is None:
                approval = Approval("approve", of=of)
                verdict = self.guards[self.process_at(at)].resolve(call.host_call(self.conversation), approval)
                assert verdict.decision is Decision.DENY

    @precondition(lambda self: self.calls)
    @rule(at=SOME, which=SOME)
    def reject(self, at: int, which: int) -> None:
        call = newest(self.calls, which)
        verdict = self.guards[self.process_at(at)].resolve(call.host_call(self.conversation), {"choice": "reject"})
        assert verdict.decision is Decision.DENY
        self.model.rejected.add(call)

    # calls

    @precondition(lambda self: self.calls)
    @rule(at=SOME, which=SOME)
    def use(self, at: int, which: int) -> None:
        """Uses a permit, also of a call that was denied, in another process, or twice."""
        process, call = self.process_at(at), newest(self.calls, which)
        held = [permit for permit in self.permits if permit.process == process and permit.call.id == call.id]
        permit = next(
            (candidate for candidate in reversed(held) if candidate.call == call and not candidate.used), None
        )
        if permit is not None:
            args = self.guards[process].use(call.host_call(self.conversation))
            assert args == dict(call.host_call(self.conversation).args)
            permit.used = True
        elif all(candidate.used for candidate in held):
            with pytest.raises(InputError):
                self.guards[process].use(call.host_call(self.conversation))

    @precondition(lambda self: not all(permit.used for permit in self.permits))
    @rule(which=SOME)
    def withdraw(self, which: int) -> None:
        """Withdraws a call that never runs: rules ignore it."""
        permit = newest([permit for permit in self.permits if not permit.used], which)
        self.guards[permit.process].withdraw(permit.call.host_call(self.conversation), "nobody wants it any more")
        self.permits.remove(permit)
        self.model.taken[permit.call.order] -= 1

    @precondition(lambda self: any(permit.used and not permit.ran for permit in self.permits))
    @rule(which=SOME)
    def run(self, which: int) -> None:
        ready = [permit for permit in self.permits if permit.used and not permit.ran]
        permit = newest(ready, which)
        permit.ran = True
        self.paid += [permit.call] if permit.call.tool == "refund" else []

    @precondition(lambda self: any(permit.ran for permit in self.permits))
    @rule(which=SOME, ends=st.sampled_from(["ok", "ok", "failed", "cancelled"]))
    def record(self, which: int, ends: str) -> None:
        """A cancelled call stays in flight."""
        ready = [permit for permit in self.permits if permit.ran]
        permit = newest(ready, which)
        outcome = {"ok": Outcome("done"), "failed": Outcome("no", failed=True)}.get(ends)
        outcome = outcome or Outcome.of_error(asyncio.CancelledError())
        self.guards[permit.process].after(permit.call.host_call(self.conversation), outcome)
        if ends != "cancelled":
            self.permits.remove(permit)
            self.model.logged_in |= permit.call.tool == "authenticate" and ends == "ok"

    @precondition(lambda self: self.calls)
    @rule(at=SOME)
    def end(self, at: int) -> None:
        """Ends a conversation; a new one has the same name."""
        try:
            self.guards[self.process_at(at)].end(self.conversation)
        except InputError:  # the conversation has no calls
            return
        self.model.ended()
        self.permits.clear()
        self.paid.clear()

    def teardown(self) -> None:
        """Checks that an allowed call is not denied for good."""
        self.log_in()
        self.propose_refund(0, "W1", 50)

    @invariant()
    def nothing_ran_too_often(self) -> None:
        large = Counter(payment for payment in self.paid if payment.amount > NEEDS_A_PERSON)
        assert set(large) <= self.model.answered
        assert max(large.values(), default=0) <= 1
        assert max(Counter(payment.order for payment in self.paid).values(), default=0) <= AT_MOST


class Shared(Alone):
    """Two guards that share a ledger in a file, crash and restart."""

    def begun(self) -> list[ToolGuard]:
        return [self.started(), self.started()]

    def started(self) -> ToolGuard:
        return ToolGuard(POLICIES, ledger=SqliteLedger(FOLDER / "ledger.db"))

    @rule(at=SOME)
    def crash_and_start_again(self, at: int) -> None:
        """The crash may come before the tool runs, while it runs, or before its outcome is recorded."""
        process = self.process_at(at)
        self.guards[process] = self.started()
        self.permits = [permit for permit in self.permits if permit.process != process]


@pytest.mark.hypothesis
@pytest.mark.parametrize("machine", [Alone, Shared])
def test_the_guard_agrees_with_the_model(machine: type[RuleBasedStateMachine]) -> None:
    """A call runs exactly if the model allows it."""
    many = settings(max_examples=examples(50), stateful_step_count=30, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=many)
