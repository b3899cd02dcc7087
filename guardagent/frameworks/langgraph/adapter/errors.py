"""The error that stops a run."""

from __future__ import annotations

from langgraph.errors import GraphBubbleUp

from guardagent.errors import ToolDenied


class RunStopped(ToolDenied, GraphBubbleUp):
    """A rule halted the run, or the agent continued after it gave up; `verdict` has the reason.

    Being one of the host's control signals it is neither retried nor made a message for the model on its way out.
    """
