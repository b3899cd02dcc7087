"""What the model, or the caller of the run, gets instead of a tool's output."""

from __future__ import annotations

from typing import Any

from agents import AgentsException, ToolGuardrailFunctionOutput, ToolOutputGuardrail

from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import ToolDenied
from guardagent.types import Decision, Verdict


class RunHalted(ToolDenied, AgentsException):  # type: ignore[misc]
    """A rule halts the run: `Runner` raises this. `verdict` says why."""


class Denial(str):
    """The text of a denial, as the model reads it; told from what a tool says by its type."""

    __slots__ = ("verdict",)
    verdict: Verdict

    @classmethod
    def of(cls, verdict: Verdict) -> Denial:
        said = cls(verdict.feedback())
        said.verdict = verdict
        return said

    def __deepcopy__(self, memo: Any) -> Denial:
        return self

    def __reduce__(self) -> Any:
        return str, (str(self),)

    @property
    def final(self) -> str | None:
        """The answer with which the run ends, where the agent has replanned often enough."""
        return f"{self}\n{self.verdict.reasons[-1]}" if gave_up(self.verdict) else None


def denied(tool: str, verdict: Verdict) -> Denial:
    """The denial of a call.

    Raises:
        RunHalted: the run ends here.
    """
    if verdict.decision is Decision.HALT:
        raise RunHalted(tool, verdict)
    return Denial.of(verdict)


def _reject(data: Any) -> Any:
    if isinstance(data.output, Denial):
        return ToolGuardrailFunctionOutput.reject_content(data.output)
    return ToolGuardrailFunctionOutput.allow()


# A tool with an output schema: what is rejected is not held to it.
PAST_THE_SCHEMA = ToolOutputGuardrail(guardrail_function=_reject, name="guardagent")
