"""The runs of crews and agents, the conversation that each belongs to, and results and messages as rules read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from crewai.hooks.dispatch import HookAborted
from crewai.tools.tool_failure import ToolFailure

from guardagent.enforcement import Outcome
from guardagent.enforcement.host_adapter import last_user_text, plain_or_text
from guardagent.enforcement.host_runs import HostRun, HostScope, HostSurroundings
from guardagent.errors import ToolDenied, error_text
from guardagent.types import Verdict

# --- runs

UNNAMED = "this run names no conversation: kick it off inside 'with conversation(id):', or pass conversation=..."


class CrewHalted(ToolDenied, HookAborted):
    """A rule has halted the run: a kickoff raises this. `verdict` says why.

    It is a HookAborted, which the host neither retries nor shows to the model.
    """

    def __init__(self, tool: str, verdict: Verdict) -> None:
        ToolDenied.__init__(self, tool, verdict)
        self.reason, self.source = str(self), "guardagent"


class RunEndedError(HookAborted):
    """Ends the steps of an agent whose guard gave up; its text is the agent's answer."""


@dataclass(slots=True, kw_only=True)
class CrewRun(HostRun):
    """One run of a crew, or of an agent in it.

    Attributes:
        executor: the agent's executor; None for a crew.
        last_task: the task whose output is the crew's answer.
    """

    halt_error = CrewHalted

    executor: Any = None
    last_task: Any = None

    def __post_init__(self) -> None:
        if self.outer is not None:
            self.final, self.halted = self.outer.final, self.outer.halted

    @property
    def step(self) -> str | None:
        """The model's turn; None where several turns have one number, in the steps of a plan."""
        executor = self.executor
        planned = executor is None or executor._step_executor is not None  # noqa: SLF001 - a part that is required
        return None if planned else f"{self.id}.{executor.state.iterations}"

    def check(self) -> None:
        """Ends the run if its guard has.

        Raises:
            CrewHalted: a rule has halted it.
            RunEndedError: the agent gave up.
        """
        if self.halted is not None:
            raise self.halted
        if self.final is not None:
            raise RunEndedError(self.final, "guardagent")


@dataclass(frozen=True, slots=True)
class CrewScope(HostScope):
    """The surroundings of a call or a run."""

    run: CrewRun | None = None

    @property
    def inside(self) -> bool:
        return self.run is not None or self.call is not None


SURROUNDINGS = HostSurroundings("crewai", CrewScope)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


# --- results


def outcome_of(output: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned."""
    if isinstance(output, ToolFailure):
        return Outcome(output.as_agent_message(), failed=True, other_outputs=(plain_or_text(output.details),))
    return Outcome(plain_or_text(output))


def outcome_of_error(error: BaseException, *, remote: bool) -> Outcome:
    """Returns the outcome of a tool that raised.

    Args:
        error: what it raised.
        remote: whether the tool runs on a server; then nobody knows whether it has done its work.
    """
    lost = remote or any(isinstance(cause, TimeoutError) for cause in _chain(error))
    return Outcome(error_text(error), failed=None) if lost and isinstance(error, Exception) else Outcome.of_error(error)


def _chain(error: BaseException) -> list[BaseException]:
    chain = [error]
    for member in chain:
        cause = member.__cause__ or member.__context__
        if cause is not None and cause not in chain:
            chain.append(cause)
    return chain


# --- messages


def chat(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Returns role and text of each message."""
    return [{"role": str(message.get("role")), "content": _text(message.get("content"))} for message in list(messages)]


def result_ids(messages: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the ids of the calls whose results are among the messages."""
    ids = [message.get("tool_call_id") for message in list(messages) if message.get("role") == "tool"]
    return [call_id for call_id in ids if isinstance(call_id, str)]


def request_text(messages: Any) -> str:
    """Returns what the user asks an agent for: a text, or that of the last message."""
    return messages if isinstance(messages, str) else last_user_text(chat(messages or ()))


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "\n".join(text for text in parts if isinstance(text, str))
    return content if isinstance(content, str) else ""
