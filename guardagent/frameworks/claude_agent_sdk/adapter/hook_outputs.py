"""The answers of a hook, in the host's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardagent.enforcement.tool_guard import gave_up
from guardagent.types import Decision, Verdict, thaw

PRE = "PreToolUse"


def release_output(args: Mapping[str, Any]) -> dict[str, Any]:
    """Lets the call go on with these arguments. The host's own permissions still apply."""
    return _output(updatedInput=thaw(args))


def ask_output(args: Mapping[str, Any], why: str) -> dict[str, Any]:
    """Has the host ask its reviewer, whatever its permissions are."""
    return _output(permissionDecision="ask", permissionDecisionReason=why, updatedInput=thaw(args))


def deny_output(why: str, *, ends: bool = False) -> dict[str, Any]:
    """Denies the call; `ends` also ends the run."""
    output = _output(permissionDecision="deny", permissionDecisionReason=why)
    return {**output, **end_output(why)} if ends else output


def end_output(why: str) -> dict[str, Any]:
    """Ends the run of the agent that the hook is about: a sub-agent, or the main one."""
    return {"continue_": False, "stopReason": why}


def ends_run(verdict: Verdict) -> bool:
    """Whether a denial ends the run: a halt, or the last of too many."""
    return verdict.decision is Decision.HALT or gave_up(verdict)


def denial_text(verdict: Verdict) -> str:
    """Returns the reasons and the remedy."""
    return f"{verdict.feedback()}\n{verdict.reasons[-1]}" if gave_up(verdict) else verdict.feedback()


def _output(**fields: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": PRE, **fields}}
