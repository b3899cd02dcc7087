"""The settings of how long a server keeps what it no longer needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from guardagent.errors import InputError


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """The times after which a server deletes. The log is not concerned.

    Attributes:
        answer_hours: of answers to requests with an idempotency key, for their repetitions.
        session_days: of sessions that have ended, after they were opened.
        approval_days: of approvals that are decided or expired, after they were requested.
        abandoned_days: after which a session that is still open is ended; None for never.
    """

    answer_hours: float = 1.0
    session_days: float = 90.0
    approval_days: float = 90.0
    abandoned_days: float | None = None


RETENTION_KEYS = tuple(one.name for one in fields(RetentionSettings))


def read_retention(value: Mapping[str, Any]) -> RetentionSettings:
    """Reads the settings.

    Raises:
        InputError: a time is invalid.
    """
    for name, one in value.items():
        is_never = one is None and name == "abandoned_days"
        if not (is_never or (type(one) in (int, float) and 0 < one <= 36_500)):
            unit = name.partition("_")[2]
            raise InputError(f"{name!r} of 'retention' is {one!r}; expected a number of {unit} above 0")
    return RetentionSettings(**value)
