"""The need of a host to ask its reviewers."""

from __future__ import annotations

from guardagent.enforcement.enforcement_point import EnforcementPoint


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
