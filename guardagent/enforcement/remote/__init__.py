"""A guard whose decisions a server makes: `guardagent serve`."""

from guardagent.enforcement.remote.remote_guard import RemoteGuard
from guardagent.enforcement.remote.reviewers import wait_for_reviewers

__all__ = ["RemoteGuard", "wait_for_reviewers"]
