"""Checks the options of a guard when it is built, since a mistake would show only at the first call, or never."""

from __future__ import annotations

import datetime as dt
import inspect
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from guardagent.enforcement.ledger import METHODS
from guardagent.errors import InputError
from guardagent.policy.language.values import zone_named


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
        lambda one: callable(one) or isinstance(one, Mapping),
    ),
    "principal": (
        "a mapping with 'id', 'roles' and 'tenant', or a function that returns one",
        lambda one: one is None or callable(one) or isinstance(one, Mapping),
    ),
    "aliases": (
        "a mapping of host tool names to the rules' tool names",
        lambda one: isinstance(one, Mapping),
    ),
    "absent": (
        "a set of tool names",
        lambda one: isinstance(one, Collection) and not isinstance(one, str | Mapping) and all(map(_is_text, one)),
    ),
    "tools_lock": ("the path of a lock file", lambda one: one is None or isinstance(one, str | Path)),
    "extra": ("a function that returns the rules for a conversation", lambda one: one is None or callable(one)),
    "approver": ("a function that takes an ApprovalRequest", lambda one: one is None or callable(one)),
    "answers": ("a GuardAgent", lambda one: one is None or callable(getattr(one, "guard", None))),
    "log": ("an AuditLog", lambda one: one is None or callable(getattr(one, "append", None))),
    "on_log_error": ("'deny', 'warn' or 'spool'", lambda one: one in ("deny", "warn", "spool")),
    "log_spool": ("the path of a file", lambda one: one is None or isinstance(one, str | Path)),
    "max_replans": ("an integer of at least 0", lambda one: type(one) is int and one >= 0),
    "ledger": (
        "the address of a ledger, such as 'sqlite:ledger.db', a SqliteLedger, or None",
        lambda one: one is None or isinstance(one, str) or all(callable(getattr(one, name, None)) for name in METHODS),
    ),
    "counters": (
        "the address of a store of counters, such as 'sqlite:PATH', or a store",
        lambda one: one is None or isinstance(one, str) or callable(getattr(one, "reserve", None)),
    ),
    "approvals": ("'asked here' or \"this host's\"", lambda one: one in ("asked here", "this host's")),
    "clock": ("a function that returns the time, or None", lambda one: one is None or callable(one)),
    "zone": (
        "a time zone such as 'Europe/Berlin', or None",
        lambda one: one is None or isinstance(one, dt.tzinfo) or (isinstance(one, str) and zone_named(one) is not None),
    ),
    "provenance_bytes": ("an integer of at least 0", lambda one: type(one) is int and one >= 0),
    "deadline": (
        "a number of seconds above 0",
        lambda one: type(one) in (int, float) and 0 < one <= threading.TIMEOUT_MAX,
    ),
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
