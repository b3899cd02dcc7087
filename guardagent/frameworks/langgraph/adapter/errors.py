"""The error that stops a run."""

from __future__ import annotations

from langgraph.errors import GraphBubbleUp

from guardagent.errors import ToolDenied


class RunStopped(ToolDenied, GraphBubbleUp):  # type: ignore[misc]
    """A call was denied by a rule that halts the run, or after the agent had given up; `verdict` says why.

    Being one of the host's control signals it is neither retried nor made a message for the model on its way out.
    """
