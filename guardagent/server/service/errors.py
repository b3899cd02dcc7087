"""Errors of a server's requests."""

from __future__ import annotations

from guardagent.errors import InputError


class UnknownItemError(InputError):
    """There is no such thing for this caller; another tenant's is not told from one that does not exist."""


class RequestConflictError(InputError):
    """The request contradicts what has happened."""


class RepeatedKeyError(InputError):
    """The idempotency key belongs to another request."""


class RequestRunningError(RequestConflictError):
    """The first request with the same idempotency key is still running."""
