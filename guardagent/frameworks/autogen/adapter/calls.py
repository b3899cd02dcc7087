"""Judges the calls and the final answers of agents.

Arguments are judged as the tool's function receives them: validated, with defaults, and copied. The answer of a run is
everything that its models say; it is held until it is judged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_core.models import AssistantMessage
from pydantic import BaseModel

from guardagent._support.execution import adrive, drive
from guardagent.enforcement import EnforcementPoint, HostCall, Outcome, ToolSpec
from guardagent.enforcement.calls import plain_value
from guardagent.enforcement.host_adapter import noted_denial, withheld
from guardagent.enforcement.host_runs import awaited
from guardagent.enforcement.tool_arguments import refuse_opaque
from guardagent.errors import InputError, ToolDenied
from guardagent.frameworks.autogen.adapter.runs import SURROUNDINGS, UNNAMED, AutoGenScope, scope, spoken_text
from guardagent.types import FrozenMapping, Verdict

# --- calls

ValidateEdit = Callable[[Mapping[str, Any]], Mapping[str, Any]]
HANDOFF = "handoff"


@dataclass(frozen=True, slots=True)
class PermittedCall:
    """A call that may run.

    Attributes:
        guard: records its outcome.
        call: the call.
        args: the judged arguments.
        inside: the surroundings of what it runs.
    """

    guard: EnforcementPoint
    call: HostCall
    args: Mapping[str, Any]
    inside: AutoGenScope

    async def run(self, work: Callable[[], Awaitable[Any]], outcome: Callable[[Any], Outcome]) -> Any:
        """Runs the tool and records its outcome."""
        running = SURROUNDINGS.within(self.inside, awaited(work))
        return await adrive(self.guard.lifecycle.execute(self.call, running, outcome))

    async def stream(
        self, results: AsyncGenerator[Any, None], outcome: Callable[[Any], Outcome]
    ) -> AsyncGenerator[Any, None]:
        """Yields the results of a tool, and records the last one as its outcome."""
        life, last = self.guard.lifecycle, None
        try:
            async with aclosing(SURROUNDINGS.stream_within(self.inside, results)) as events:
                async for last in events:
                    yield last
            ended = outcome(last)
        except BaseException as error:
            recorded = life.after(self.call, Outcome.of_error(error))
            if isinstance(error, Exception):
                await adrive(recorded)
            else:
                drive(recorded)  # not awaited: the task is cancelled
            raise
        await adrive(life.after(self.call, ended))


class AutoGenCalls:
    """Judges calls.

    Args:
        guard: decides.
        named: returns the operator's name of the conversation.
    """

    def __init__(self, guard: EnforcementPoint, named: Callable[[], str | None]) -> None:
        self.guard, self._named = guard, named

    async def authorize(self, name: str, args: Mapping[str, Any], validate_edit: ValidateEdit) -> PermittedCall:
        """Judges a call.

        Raises:
            ToolDenied: the call may not run.
        """
        around = self._around()
        call = self._call(name, args, around, validate_edit)
        try:
            call, judged = await adrive(self.guard.lifecycle.authorize(call))
        except ToolDenied as denied:
            raise noted_denial(denied, around, UNNAMED) from None
        inside = replace(around, conversation=call.conversation, call=call, turn=None, tool_id=None)
        return PermittedCall(self.guard, call, judged, inside)

    async def refusal(self, name: str, problem: str) -> ToolDenied:
        """Denies a call that cannot be judged as it stands."""
        around = self._around()
        verdict = await self.guard.arefuse(self._call(name, {}, around), problem)
        return noted_denial(ToolDenied(name, verdict), around, UNNAMED)

    def _around(self) -> AutoGenScope:
        return scope() or AutoGenScope(self._named())

    def _call(
        self, name: str, args: Mapping[str, Any], around: AutoGenScope, validate_edit: ValidateEdit | None = None
    ) -> HostCall:
        options: dict[str, Any] = {"validate_edit": validate_edit}
        if around.run is not None and around.turn is not None:
            turn = around.turn
            options |= {"step": f"{around.run.id}.{turn.id}.{turn.step}", "agent": turn.agent}
            if around.call is None:
                options |= {"messages": turn.messages, "seen": turn.seen}
        if around.tool_id:
            options["id"] = around.tool_id
        if name == HANDOFF:
            options["action"] = HANDOFF
        return HostCall(name, args, around.conversation, **options)


# --- arguments

_SERVER_TOOL = "McpToolAdapter"


@dataclass(frozen=True, slots=True)
class AutoGenArguments:
    """Reads the arguments of a tool.

    Attributes:
        spec: the tool's declaration, under the name by which models call it.
        model: the class of its arguments.
        explicit: whether the tool omits arguments that are not marked as set, so that defaults have to be.
    """

    spec: ToolSpec
    model: type[BaseModel]
    explicit: bool

    @classmethod
    def of(cls, tool: Any, name: str) -> AutoGenArguments:
        """Reads the declaration of a tool.

        Raises:
            InputError: it has an argument of a type that no rule can read.
        """
        model = tool.args_type()
        refuse_opaque(name, {argument: one.annotation for argument, one in model.model_fields.items()})
        schema = tool.schema.get("parameters", {})
        more = frozenset(model.model_fields) if model.model_config.get("extra") != "allow" else None
        spec = ToolSpec(name, dict(schema), tool.description or "", unlisted_arguments=more)
        return cls(spec, model, any(one.__name__ == _SERVER_TOOL for one in type(tool).__mro__))

    def copied(self, args: BaseModel) -> BaseModel:
        """Returns a copy of arguments, which nobody else can change.

        Raises:
            InputError: they cannot be copied.
        """
        try:
            own = args.model_copy(deep=True)
        except Exception as error:  # noqa: BLE001 - whatever a copy raises
            raise InputError(f"the arguments of {self.spec.name!r} cannot be copied: {error}") from None
        if self.explicit:
            own.__pydantic_fields_set__.update(
                name for name in type(own).model_fields if getattr(own, name, None) is not None
            )
        return own

    def judged(self, own: BaseModel) -> FrozenMapping:
        """Returns arguments as rules read them.

        Raises:
            InputError: one has no form that rules can read.
        """
        found = plain_value(own, f"the arguments of {self.spec.name}", frozen=True)
        if not isinstance(found, Mapping):
            raise InputError(f"the arguments of {self.spec.name!r} are a {type(found).__name__}; expected an object")
        return FrozenMapping(found)

    def edited(self, args: Mapping[str, Any]) -> BaseModel:
        """Returns the arguments that a tool gets for a reviewer's edits.

        Raises:
            InputError: an argument is unknown.
            pydantic.ValidationError: one does not fit.
        """
        unknown = [] if self.model.model_config.get("extra") == "allow" else [*args.keys() - self.model.model_fields]
        if unknown:
            raise InputError(f"{self.spec.name!r} has no argument {unknown[0]!r}")
        return self.copied(self.model.model_validate(dict(args)))


# --- final answers


@dataclass(slots=True)
class AnswerHold:
    """Holds the events of a run until its answer has passed.

    Attributes:
        guard: judges the answer.
        around: the surroundings of the run.
        name: the name of the agent or team.
        task: the messages of the user.
        context: the context of the agent's model; None for a team.
    """

    guard: EnforcementPoint
    around: AutoGenScope
    name: str
    task: Sequence[Any]
    context: Any = None
    events: list[Any] = field(default_factory=list)

    async def judged(self, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Yields the events if the answer may pass; else the reason why it is withheld."""
        start = len(_messages_of(self.context))
        async with aclosing(events) as found:
            async for event in found:
                self.events.append(event)
        verdict = await self._denial()
        if verdict is None:
            for event in self.events:
                yield event
            return
        self._forget(start, withheld(verdict))
        for event in self._withheld(withheld(verdict)):
            yield event

    async def _denial(self) -> Verdict | None:
        run = self.around.run
        final = run.final if run is not None else None
        texts = [spoken_text(one) for one in map(_message_of, self.events) if one is not None and not self._asks(one)]
        text = "\n".join(dict.fromkeys(one for one in texts if one is not None and one != final))
        if final is not None and not text:
            return None  # the guard's own answer
        requests = [one if isinstance(one, str) else one.to_text() for one in self.task]
        verdict = await self.guard.aanswer(self.around.conversation or "", requests[-1] if requests else "", text)
        if verdict.label and run is not None:
            run.note("answer", verdict)
            if run.halted is not None:
                raise run.halted
        return verdict if verdict.label else None

    def _withheld(self, text: str) -> list[Any]:
        """Returns the end of a run whose answer is denied."""
        message, last = TextMessage(content=text, source=self.name), self.events[-1]
        if not isinstance(last, TaskResult):
            return [Response(chat_message=message, inner_messages=[])]
        messages = [*(one for one in last.messages if self._asks(one)), message]
        return [*messages, TaskResult(messages=messages)]

    def _asks(self, message: Any) -> bool:
        """Whether it is the user's message."""
        if any(isinstance(one, str) and message.source == "user" and message.to_text() == one for one in self.task):
            return True
        return any(message.id == one.id for one in self.task if isinstance(one, BaseChatMessage))

    def _forget(self, start: int, text: str) -> None:
        """Replaces what the model said in this run in its context."""
        messages = _messages_of(self.context)
        for at in range(start, len(messages)):
            if isinstance(messages[at], AssistantMessage) and isinstance(messages[at].content, str):
                messages[at] = AssistantMessage(content=text, source=messages[at].source)


def _message_of(event: Any) -> Any:
    if isinstance(event, Response):
        return event.chat_message
    return None if isinstance(event, TaskResult) else event


def _messages_of(context: Any) -> list[Any]:
    messages = getattr(context, "_messages", None)
    return messages if isinstance(messages, list) else []
