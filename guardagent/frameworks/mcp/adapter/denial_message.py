"""The message of a denial for the model."""

from __future__ import annotations

from guardagent.enforcement.tool_guard import gave_up
from guardagent.types import Decision, Verdict


def denial_message(verdict: Verdict, *, client: bool = True) -> str:
    """Returns the feedback of a verdict, with the next step if the agent must not try again.

    Args:
        verdict: a denial.
        client: whether the client receives approval requests if it can show forms.
    """
    feedback = verdict.feedback()
    if verdict.decision is Decision.ESCALATE:
        why = "the client cannot show a form (elicitation)" if client else "approval requests do not go to the client"
        return f"{feedback}\nNo reviewer could be reached: {why}, and no approver is configured."
    if verdict.decision is Decision.HALT:
        return f"{feedback}\nEvery further call in this session is denied. Tell the user."
    if gave_up(verdict):
        return f"{feedback}\n{verdict.reasons[-1]}. Stop here, and tell the user why."
    return feedback
