"""The record of an approval, and how answers change it. Everything else only stores it.

pending -> approved or edited   enough approvers agree about the same arguments
pending -> rejected             one approver rejects
pending -> expired              the deadline passes
approved or edited -> used      the call was allowed with it, once
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from guardagent.enforcement.approval import Approval
from guardagent.errors import ForbiddenError
from guardagent.server.service.requests import RequestConflictError

ApprovalStatus = Literal["pending", "approved", "edited", "rejected", "expired", "used"]
FINAL: tuple[ApprovalStatus, ...] = ("rejected", "expired", "used")


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """The rules for the approvals of a policy.

    Attributes:
        quorum: how many approvers have to agree.
        seconds: how long a request waits; after that it is denied.
        four_eyes: whether nobody may approve a call of their own: neither the caller that requests it nor the user on
            whose behalf the agent acts.
    """

    quorum: int = 1
    seconds: float = 3600.0
    four_eyes: bool = True


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """An approval, bound to one call with its arguments in one version of a policy.

    Attributes:
        session: the session of the call.
        policy, policy_version: the policy that asks, and the digest of its version.
        call: the call's id, tool, arguments and agent as they were proposed.
        digest: the digest of the call; an approval is for no other one.
        rules, reasons: the rules that escalated, and what they say.
        requested_by: the id of the caller.
        user: the id of the principal on whose behalf the agent acts.
        created, deadline: in seconds since the epoch.
        quorum, four_eyes: as in `ApprovalRules`.
        status: the last one that was stored; `at` tells the one at a time.
        args: the arguments of the last edit; None if nobody edited them.
        steps: the answers: `by`, `choice`, `reason`, `at`.
    """

    session: str
    policy: str
    policy_version: str
    call: Mapping[str, Any]
    digest: str
    rules: Sequence[str]
    reasons: Sequence[str]
    requested_by: str
    user: str | None
    created: float
    deadline: float
    quorum: int = 1
    four_eyes: bool = True
    status: ApprovalStatus = "pending"
    args: Mapping[str, Any] | None = None
    steps: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> ApprovalRecord:
        """Returns the record of a stored value."""
        return cls(**{**content, "steps": tuple(content["steps"])})

    @property
    def content(self) -> dict[str, Any]:
        """Its value in a store."""
        return asdict(self)

    def at(self, now: float) -> ApprovalRecord:
        """Returns the record at a time: nothing can be approved or used after the deadline."""
        is_late = now >= self.deadline and self.status in ("pending", "approved", "edited")
        return replace(self, status="expired") if is_late else self

    @property
    def agreeing(self) -> tuple[str, ...]:
        """The approvers of the arguments as they are: those since the last edit, and who edited them."""
        last = max((at for at, step in enumerate(self.steps) if step["choice"] == "edit"), default=0)
        return tuple(dict.fromkeys(step["by"] for step in self.steps[last:]))

    def answered(self, answer: Approval, by: str, now: float) -> ApprovalRecord:
        """Returns the record after an approver's answer.

        Raises:
            RequestConflictError: it is decided, or this approver has answered; the message says who decided.
            ForbiddenError: this approver may not decide on it.
        """
        record = self.at(now)
        record.require_open(by)
        step = {"by": by, "choice": answer.choice, "reason": answer.reason, "at": now}
        record = replace(record, steps=(*record.steps, step))
        if answer.choice == "reject":
            return replace(record, status="rejected")
        if answer.choice == "edit":
            record = replace(record, args=answer.args)
        if len(record.agreeing) < record.quorum:
            return record
        return replace(record, status="approved" if record.args is None else "edited")

    def require_open(self, by: str) -> None:
        """Requires that an approver may answer.

        Raises:
            RequestConflictError, ForbiddenError: as `answered`.
        """
        if self.status != "pending":
            who = " and ".join(dict.fromkeys(step["by"] for step in self.steps)) or "the deadline"
            raise RequestConflictError(f"this approval is {self.status}; decided by {who}")
        if self.four_eyes and by in (self.requested_by, self.user):
            raise ForbiddenError("a caller or user may not approve their own call; expected another approver")
        if by in self.agreeing:
            raise RequestConflictError("this approver has answered; expected another one")

    @property
    def answer(self) -> Approval:
        """The decision, for the guard that judges the call again; one that is pending or expired rejects.

        A used one stays as it was, for a request that is repeated: the history has the call already, and the ledger
        makes sure that nothing runs twice.
        """
        by = ", ".join(self.agreeing) or None
        if self.status in ("approved", "edited", "used"):
            if self.args is not None:
                return Approval("edit", self.args, by=by, of=self.digest)
            return Approval("approve", by=by, of=self.digest)
        if self.status == "rejected":
            last = self.steps[-1]
            return Approval("reject", reason=last["reason"], by=last["by"])
        return Approval("reject", reason=f"the approval is {self.status}")
