"""Commands that resume an interrupted run with a reviewer's answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from langgraph.types import Command, Interrupt

from guardagent.errors import InputError

Shown: TypeAlias = Interrupt | Iterable[Interrupt]


def approve(shown: Shown, *, by: str | None = None) -> Command[Any]:
    """Approves the calls that were shown, once each.

        agent.invoke(approve(result["__interrupt__"]), config)

    Args:
        shown: one or more interrupts.
        by: the reviewer, for the log.

    Raises:
        InputError: an interrupt is not an approval request of the guard.
    """
    return _command(shown, {"choice": "approve", "by": by})


def reject(shown: Shown, reason: str = "", *, by: str | None = None) -> Command[Any]:
    """Rejects the calls that were shown.

    Args:
        shown: as of `approve`.
        reason: the feedback to the agent.
        by: as of `approve`.

    Raises:
        InputError: as of `approve`.
    """
    return _command(shown, {"choice": "reject", "reason": reason, "by": by})


def edit(shown: Shown, args: Mapping[str, Any], *, by: str | None = None) -> Command[Any]:
    """Edits a call: it is judged again with the new arguments.

    Args:
        shown: one interrupt.
        args: the complete arguments of the call.
        by: as of `approve`.

    Raises:
        InputError: as of `approve`; or there are several interrupts.
    """
    found = _command(shown, {"choice": "edit", "args": dict(args), "by": by})
    if len(found.resume) > 1:
        raise InputError(f"{len(found.resume)} calls were shown; expected the interrupt of the one to edit")
    return found


def _command(shown: Shown, decision: Mapping[str, Any]) -> Command[Any]:
    every = [shown] if isinstance(shown, Interrupt) else list(shown)
    if not every:
        raise InputError("nothing was shown; expected an interrupt of the run, such as result['__interrupt__'] holds")
    return Command(resume={one.id: {**decision, "of": _digest(one)} for one in every})


def _digest(shown: Any) -> str:
    value = getattr(shown, "value", None)
    digest = value.get("digest") if isinstance(value, Mapping) and "tool" in value else None
    if not isinstance(digest, str):
        raise InputError(
            f"{shown!r:.200} is not an approval request of the guard; expected an interrupt with a call's digest"
        )
    return digest
