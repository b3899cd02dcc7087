"""Waiting for the reviewers of a guard's server."""

from __future__ import annotations

from dataclasses import dataclass

from guardagent.enforcement.approval import Approval, ApprovalRequest
from guardagent.errors import InputError


@dataclass(frozen=True, slots=True)
class ReviewerWait:
    """An approver for `RemoteGuard`: the reviewers of its server, for whom a call waits."""

    seconds: float

    def __call__(self, _request: ApprovalRequest) -> Approval:
        """Rejects the call of any other guard, which has no server to wait for."""
        return Approval("reject", reason="only a RemoteGuard can wait for the reviewers of its server")


def wait_for_reviewers(seconds: float = 300.0) -> ReviewerWait:
    """Returns an approver with which an escalated call waits until reviewers on the server have answered.

    Args:
        seconds: the longest wait; a call without an answer is denied then.

    Raises:
        InputError: the time is invalid.
    """
    if type(seconds) not in (int, float) or not 0 < seconds <= 86_400:
        raise InputError(f"the wait for reviewers is {seconds!r}; expected seconds above 0 and up to 86400")
    return ReviewerWait(float(seconds))
