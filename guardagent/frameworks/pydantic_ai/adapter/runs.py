"""The runs of agents, the conversation that each belongs to, and results and messages as rules read them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai import CallDeferred, ModelRetry, ToolFailed, ToolReturn
from pydantic_ai.exceptions import RunCancelled
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

from guardagent.enforcement import HostCall, Outcome
from guardagent.enforcement.decisions import gave_up
from guardagent.enforcement.host_adapter import plain_or_text
from guardagent.enforcement.host_runs import HostScope, HostSurroundings, ModelRun
from guardagent.enforcement.tool_arguments import finished
from guardagent.errors import InputError, ToolDenied, error_text
from guardagent.types import Verdict

# --- runs

UNNAMED = (
    "this run names no conversation: pass conversation_id=... to it, run the agent inside 'with conversation(id):', or "
    "attach the guard with conversation=..."
)


class AgentRunHalted(ToolDenied):
    """A rule has halted the run: `agent.run` raises this. `verdict` says why."""


class AgentRunEnded(ToolDenied):
    """The agent gave up after too many denials, and its output cannot be a text. `verdict` says why."""


@dataclass(slots=True, eq=False, kw_only=True)
class PydanticRun(ModelRun):
    """One run of an agent.

    Attributes:
        named: the conversation, if the operator or a scope names it.
        explicit: whether the program named the host's conversation of this run.
        call: the running call around it.
        streamed: whether `run_stream` runs it, whose first text is the answer whatever follows.
        waits: whether the run may end with requests to reviewers.
        functions: the output functions by name.
        rejected: the ids of the calls that a reviewer has rejected, and the host's metadata of each.
        gave_up: the verdict after which the agent gave up.
        outputs: the names of the output tools.
        host_conversation: the host's id of the conversation.
    """

    halt_error = AgentRunHalted

    named: str | None = None
    explicit: bool = False
    call: HostCall | None = None
    streamed: bool = False
    waits: bool = False
    functions: Mapping[str, Any] = field(default_factory=dict)
    rejected: Mapping[str, Any] = field(default_factory=dict)
    gave_up: Verdict | None = None
    outputs: Collection[str] = ()
    host_conversation: str | None = None

    @property
    def conversation(self) -> str | None:
        """The id of the conversation; None if nobody has named it."""
        return self.named or (self.host_conversation if self.explicit else None)

    def read(self, ctx: Any) -> None:
        """Reads the host's id of the conversation."""
        self.host_conversation = ctx.conversation_id

    def around(self, tool_id: str | None = None) -> PydanticScope:
        """Returns the surroundings of the run's calls, and of the one with the host's id `tool_id`."""
        return PydanticScope(self.conversation, self, self.call, tool_id)

    def show(self, messages: Iterable[Any], proposed: set[str], outputs: Collection[str] = ()) -> None:
        """Takes over the messages that the model reads.

        Args:
            messages: in the host's form.
            proposed: the ids of the calls that models proposed under this guard, which may have been denied.
            outputs: the names of output tools, whose results are not those of calls.
        """
        self.messages = chat(messages)
        self.seen = [call_id for call_id in result_ids(messages, outputs) if call_id not in proposed]

    def ends(self, messages: Sequence[Any]) -> bool:
        """Whether the model's last message has an answer beside its calls, so that the run cannot wait."""
        last = messages[-1] if messages else None
        if isinstance(last, ModelResponse):
            return any(call.tool_name in self.outputs for call in last.tool_calls)
        return self.streamed and self.step > 0  # then the host keeps the message only after its calls

    def note(self, tool: str, verdict: Verdict) -> None:
        ModelRun.note(self, tool, verdict)
        run: PydanticRun | None = self
        while run is not None and gave_up(verdict):
            run.gave_up = run.gave_up or verdict
            run = run.outer


@dataclass(slots=True)
class Permission:
    """The permission of a call on its way to its tool. The toolset that has the tool uses it once.

    Attributes:
        tool: the name of the tool.
        args: the judged arguments, as rules read them.
        used: whether it was used.
    """

    tool: str
    args: Any
    used: bool = False


@dataclass(frozen=True, slots=True)
class PydanticScope(HostScope):
    """The surroundings of a call. Its run is the one whose call this is.

    Attributes:
        permission: the permission of that call.
    """

    run: PydanticRun | None = None
    permission: Permission | None = None


SURROUNDINGS = HostSurroundings("pydantic_ai", PydanticScope, states_usage=True)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


def new_run(named: str | None, *, explicit: bool, **options: Any) -> PydanticRun:
    """Returns a new run: within a tool, in the conversation of the call.

    Args:
        named: the conversation that the operator names, if any.
        explicit: whether the program names the host's conversation.
        options: further attributes.
    """
    around = scope()
    if around is not None and around.call is not None:
        return PydanticRun(around.run, named=around.conversation, call=around.call, **options)
    outside = around.conversation if around is not None else None
    return PydanticRun(named=named or outside, explicit=explicit, **options)


# --- results


def finished_output(name: str, result: Any) -> Any:
    """Returns what a tool has returned, if its work is done.

    Raises:
        ToolFailed: it is not, as that of a generator; the model reads why.
    """
    try:
        finished(name, result.return_value if isinstance(result, ToolReturn) else result)
    except (InputError, TimeoutError) as error:
        raise ToolFailed(str(error)) from error
    return result


def outcome_of(result: Any) -> Outcome:
    """Returns a call's outcome from what its tool has returned: a value, or a ToolReturn."""
    if isinstance(result, ToolReturn):
        return Outcome(plain_or_text(result.return_value), other_outputs=(plain_or_text(result.content),))
    return Outcome(plain_or_text(result))


def failure_of(error: BaseException) -> Outcome | None:
    """Returns a call's outcome from what its tool has raised; None if it goes on elsewhere.

    The host reports a time-out as a retry, and the cancellation of an agent in a tool as an error; the tool may have
    done its work.
    """
    if isinstance(error, CallDeferred):
        return None
    late = isinstance(error, ModelRetry | ToolFailed) and isinstance(error.__cause__ or error.__context__, TimeoutError)
    if late or isinstance(error, RunCancelled):
        return Outcome(error_text(error), failed=None)
    return Outcome.of_error(error)


# --- messages

_NOT_EXECUTED = "Tool not executed - a final result was already processed."  # the host's text in place of a result


def chat(messages: Iterable[Any]) -> list[dict[str, str]]:
    """Returns role and text of what users and models have said."""
    shown = []
    for message in messages:
        role, kind = ("user", UserPromptPart) if isinstance(message, ModelRequest) else ("assistant", TextPart)
        texts = [_text(part.content) for part in message.parts if isinstance(part, kind)]
        shown += [{"role": role, "content": "\n".join(texts)}] if texts else []
    return shown


def result_ids(messages: Iterable[Any], outputs: Collection[str]) -> list[str]:
    """Returns the ids of the calls whose results are among the messages.

    Args:
        messages: the host's.
        outputs: as of `PydanticRun.show`.
    """
    return [
        part.tool_call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
        and part.outcome == "success"
        and part.tool_name not in outputs
        and part.content != _NOT_EXECUTED
    ]


def proposal(messages: Iterable[Any], call_id: str) -> ToolCallPart | None:
    """Returns a call as the model proposed it; None if it is not among the messages."""
    calls = [
        part
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCallPart) and part.tool_call_id == call_id
    ]
    return calls[-1] if calls else None


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part for part in content if isinstance(part, str))
