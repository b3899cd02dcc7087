"""Denials on their way to a host."""

from __future__ import annotations

from dataclasses import replace

from guardagent.enforcement.hosts_pieces.surroundings import HostScope
from guardagent.errors import ToolDenied
from guardagent.types import Verdict


def noted_denial(denied: ToolDenied, around: HostScope, unnamed: str) -> ToolDenied:
    """Notes a denial at its run, and returns it; one without a conversation says how to name it.

    Args:
        denied: the denial.
        around: the surroundings of the call.
        unnamed: how a program of this host names a conversation.
    """
    if around.run is not None:
        around.run.note(denied.tool, denied.verdict)
    return explained_denial(denied, around.conversation, unnamed)


def explained_denial(denied: ToolDenied, conversation: str | None, unnamed: str) -> ToolDenied:
    """As `noted_denial`, without a run."""
    if conversation:
        return denied
    return ToolDenied(denied.tool, replace(denied.verdict, errors=(*denied.verdict.errors, unnamed)))


def withheld(verdict: Verdict) -> str:
    """Returns the text in place of a denied answer."""
    return f"The answer is withheld.\n{verdict.feedback()}"
