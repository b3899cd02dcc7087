"""The conversation and the state of a run, denials in place of a tool's output, and messages as rules read them.

A tool does not see the SDK's session, so the conversation comes from the first of these that
exists: the enclosing run; `GuardedRunner` or `with conversation(id)`; `conversation_id` or `session_id` of
the context object; `group_id` of the RunConfig.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from agents import AgentsException, ToolGuardrailFunctionOutput, ToolOutputGuardrail, get_current_trace

from guardagent.enforcement import EnforcementPoint, HostCall
from guardagent.enforcement.decisions import gave_up
from guardagent.enforcement.host_adapter import HostAdapter, note_run, proposed_ids
from guardagent.enforcement.host_runs import HostScope, HostSurroundings
from guardagent.enforcement.schema import read_object
from guardagent.errors import ToolDenied
from guardagent.types import Decision, Verdict

# --- runs

UNNAMED = (
    "this run names no conversation: run it with GuardedRunner and a session, inside conversation(id), with a context "
    "that has a conversation_id, or with RunConfig(group_id=...)"
)


@dataclass(slots=True)
class AgentRun:
    """One run: of Runner, or of an agent as a tool inside one.

    Attributes:
        step: the number of model calls.
        agent: the current agent.
        input: the items at the start of the run.
        turn_reported: whether the guard was notified of the user's turn.
        final: the answer with which the guard ended the run.
        proposed: the ids of the calls that its models proposed.
        texts: those of the last response of a model.
    """

    step: int = 0
    agent: Any = None
    input: list[Any] = field(default_factory=list)
    turn_reported: bool = False
    final: str | None = None
    proposed: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RunScope(HostScope):
    """The surroundings of a run. Its run is that of an agent as a tool, which shares all else with the enclosing one.

    Attributes:
        held: whether GuardedRunner holds the stream.
    """

    run: AgentRun | None = None
    held: bool = False


SURROUNDINGS = HostSurroundings("openai_agents", RunScope, states_usage=True)
scope, enter, conversation = SURROUNDINGS.scope, SURROUNDINGS.enter, SURROUNDINGS.conversation


_MOST_PENDING = 1000


@dataclass(frozen=True, slots=True)
class PendingApproval:
    """A call that waits for approval.

    Attributes:
        call: the call that is shown.
        verdict: the escalation.
        params: the arguments as the model wrote them.
    """

    call: HostCall
    verdict: Verdict
    params: Mapping[str, Any]


class OpenAIAdapter(HostAdapter[RunScope]):
    """One guard at its agents.

    A web service may build its agents, and with them an adapter, for each request; state that outlives a run belongs to
    the guard.

    Args:
        guard: decides.
        find_conversation: the operator's function that finds the conversation's id in the context of a tool or a run.
        unguarded: the names of the tools that may run unguarded.

    Attributes:
        agents: all of them, by `id`; a hand-off may build one for each run, which then ends with it.
        pending: the calls that wait for approval, by their digest.
        asking: the names of the tools whose calls may need approval.
    """

    def __init__(
        self,
        guard: EnforcementPoint,
        find_conversation: Callable[[Any], str | None] | None,
        unguarded: Collection[str],
    ) -> None:
        super().__init__(guard, SURROUNDINGS, None, UNNAMED)
        self.unguarded = frozenset(unguarded)
        self.agents: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.pending: dict[str, PendingApproval] = {}
        self.asking = set[str]()
        self._find_conversation = find_conversation
        self._runs: dict[int, AgentRun] = {}

    @property
    def may_ask(self) -> bool:
        """Whether the SDK may have to ask a person now, or after the rules were reloaded."""
        return self.approval.may_be_needed or (self.guard.approver is None and self.guard.reloadable)

    # --- a run

    def run_of(self, context: Any) -> AgentRun:
        """Returns the run that is under way, by the usage object that all contexts of a run share."""
        around = scope()
        if around is not None and around.run is not None:
            return around.run
        usage = context.usage
        if id(usage) not in self._runs:
            self._runs[id(usage)] = AgentRun()
            weakref.finalize(usage, self._runs.pop, id(usage), None).atexit = False
        return self._runs[id(usage)]

    def conversation_of(self, context: Any) -> str | None:
        """Returns the id of a context's conversation; None if there is none."""
        around = scope()
        if around is not None and around.conversation:
            return around.conversation
        if self._find_conversation is not None:
            return self._find_conversation(context)
        group = getattr(getattr(context, "run_config", None), "group_id", None)
        trace = getattr(get_current_trace(), "group_id", None)
        names = [field_of(context.context, "conversation_id"), field_of(context.context, "session_id"), group, trace]
        return next((name for name in names if isinstance(name, str) and name), None)

    def propose(self, context: Any, ids: Collection[str]) -> set[str]:
        """Notes calls that a model proposes. Returns all proposed calls of the conversation."""
        run = self.run_of(context)
        run.proposed.update(ids)
        known = proposed_ids(self.guard, self.conversation_of(context))
        known.update(run.proposed)  # of before its conversation had a name, too
        return known

    def call_options(self, context: Any, conversation: str | None) -> dict[str, Any]:
        """Returns what the SDK knows of a call that is about to run in this context, as options of a `HostCall`."""
        run, around = self.run_of(context), scope()
        inside = around is not None and around.inside
        if not run.turn_reported and conversation and not inside:
            self.guard.turn(conversation)
        run.turn_reported = run.turn_reported or bool(conversation)
        note_run(self.guard, conversation, context.usage, context.usage.total_tokens)
        shown, proposed = list(context.turn_input) or run.input, self.propose(context, ())
        return {
            "step": f"{id(run)}.{run.step}",
            "agent": getattr(getattr(context, "agent", None) or run.agent, "name", None),
            "messages": None if inside else chat(shown),  # inside, the user is a model
            "seen": [call_id for call_id in result_ids(shown) if call_id not in proposed],
        }

    # --- a person

    def ask(self, call: HostCall, verdict: Verdict, params: Mapping[str, Any]) -> None:
        """Stores a call that waits for approval."""
        self.pending[call.digest] = PendingApproval(call, verdict, params)
        if len(self.pending) > _MOST_PENDING:  # nobody answered the oldest; the stored state has it still
            del self.pending[next(iter(self.pending))]

    def pending_approval(self, item: Any) -> PendingApproval | None:
        """Returns the pending approval of an interruption; None if it is unknown here or ambiguous."""
        name, params = getattr(item.agent, "name", None), read_object(item.arguments or "", item.tool_name or "")
        about = (item.call_id, name, params)
        fitting = [
            pending
            for pending in self.pending.values()
            if (pending.call.id, pending.call.agent, pending.params) == about
        ]
        return fitting[0] if len(fitting) == 1 else None


def field_of(value: Any, name: str) -> Any:
    """Returns a field of an object or a mapping; None without it."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


# --- denials, for the model or the caller of the run


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


# --- messages


def chat(items: Iterable[Any]) -> list[dict[str, Any]]:
    """The messages among the items, each with its role and its text."""
    messages = [item for item in items if isinstance(item, Mapping) and isinstance(item.get("role"), str)]
    return [{"role": message["role"], "content": text_of(message.get("content"))} for message in messages]


def text_of(content: Any) -> str:
    """The text of a message: of its parts, those that are text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list | tuple) else ()
    return "\n".join(
        str(part["text"]) for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    )


def result_ids(items: Iterable[Any]) -> list[str]:
    """The ids of the calls whose results are among the items."""
    results = [item for item in items if isinstance(item, Mapping) and item.get("type") == "function_call_output"]
    return [str(item.get("call_id")) for item in results]


def texts_of(output: Iterable[Any]) -> list[str]:
    """The texts of all messages in a model's response, refusals too."""
    parts = [part for output_item in output if output_item.type == "message" for part in output_item.content]
    return [getattr(part, "text", None) or getattr(part, "refusal", None) or "" for part in parts]
