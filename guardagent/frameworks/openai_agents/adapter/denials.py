"""Denials in place of a tool's output, for the model or the caller of the run."""

from __future__ import annotations

from typing import Any

from agents import AgentsException, ToolGuardrailFunctionOutput, ToolOutputGuardrail

from guardagent.enforcement.tool_guard import gave_up
from guardagent.errors import ToolDenied
from guardagent.types import Decision, Verdict


class RunHalted(ToolDenied, AgentsException):
    """A rule halts the run: `Runner` raises this. `verdict` says why."""


class DenialText(str):
    """The text of a denial for the model; its type distinguishes it from a tool's output."""

    __slots__ = ("verdict",)
    verdict: Verdict

    @classmethod
    def of(cls, verdict: Verdict) -> DenialText:
        text = cls(verdict.feedback())
        text.verdict = verdict
        return text

    def __deepcopy__(self, memo: Any) -> DenialText:
        return self

    def __reduce__(self) -> Any:
        return str, (str(self),)

    @property
    def final(self) -> str | None:
        """The answer that ends the run once the agent has given up; else None."""
        return f"{self}\n{self.verdict.reasons[-1]}" if gave_up(self.verdict) else None


def denial_text(tool: str, verdict: Verdict) -> DenialText:
    """Returns the denial of a call.

    Raises:
        RunHalted: the run ends here.
    """
    if verdict.decision is Decision.HALT:
        raise RunHalted(tool, verdict)
    return DenialText.of(verdict)


def _reject(data: Any) -> Any:
    if isinstance(data.output, DenialText):
        return ToolGuardrailFunctionOutput.reject_content(data.output)
    return ToolGuardrailFunctionOutput.allow()


# For tools with an output schema: a rejection need not conform to it.
SKIP_OUTPUT_SCHEMA = ToolOutputGuardrail(guardrail_function=_reject, name="guardagent")
