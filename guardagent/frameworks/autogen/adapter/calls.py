"""Judges the calls and the final answers of agents.

Arguments are judged as the tool's function receives them: validated, with defaults, and copied. The answer of a run is
everything that its models say; it is held until it is judged.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from autogen_agentchat.base import Response, TaskResult
from autogen_agentchat.messages import BaseChatMessage, TextMessage
from autogen_core.models import AssistantMessage
from pydantic import BaseModel

from guardagent._support.execution import Procedure, adrive
from guardagent.enforcement import HostCall, Outcome, ToolSpec
from guardagent.enforcement.calls import plain_arguments, plain_value
from guardagent.enforcement.host_adapter import HANDOFF, HostAdapter, ToolInvocation, withheld
from guardagent.enforcement.lifecycle import JudgedCall
from guardagent.enforcement.tool_arguments import refuse_opaque
from guardagent.errors import InputError
from guardagent.frameworks.autogen.adapter.runs import AutoGenScope, spoken_text
from guardagent.types import FrozenMapping, Verdict, thaw

# --- arguments

_SERVER_TOOL = "McpToolAdapter"
MODEL = "model"
"""The key of a model with all arguments of a tool."""


@dataclass(frozen=True, slots=True)
class AutoGenArguments:
    """Reads the arguments of a tool, which are a model.

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
        refuse_opaque(name, {argument: model_field.annotation for argument, model_field in model.model_fields.items()})
        schema = tool.schema.get("parameters", {})
        more = frozenset(model.model_fields) if model.model_config.get("extra") != "allow" else None
        spec = ToolSpec(name, dict(schema), tool.description or "", unlisted_arguments=more)
        return cls(spec, model, any(base.__name__ == _SERVER_TOOL for base in type(tool).__mro__))

    def copied(self, args: BaseModel) -> dict[str, Any]:
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
        return {MODEL: own}

    def judged(self, own: Mapping[str, Any]) -> FrozenMapping:
        """Returns arguments as rules read them.

        Raises:
            InputError: one has no form that rules can read.
        """
        shown = plain_value(own[MODEL], f"the arguments of {self.spec.name}", frozen=True)
        if not isinstance(shown, Mapping):
            raise InputError(f"the arguments of {self.spec.name!r} are a {type(shown).__name__}; expected an object")
        return FrozenMapping(shown)

    def edited(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments that a tool gets for a reviewer's edits.

        Raises:
            InputError: an argument is unknown.
            pydantic.ValidationError: one does not fit.
        """
        unknown = [] if self.model.model_config.get("extra") == "allow" else [*args.keys() - self.model.model_fields]
        if unknown:
            raise InputError(f"{self.spec.name!r} has no argument {unknown[0]!r}")
        return self.copied(self.model.model_validate(dict(args)))


@dataclass(frozen=True, slots=True)
class NamedArguments:
    """Reads arguments by name, as those of a server's tool.

    Attributes:
        validate: returns arguments with defaults; raises InputError if they do not fit.
    """

    validate: Callable[[Mapping[str, Any]], Mapping[str, Any]]

    def copied(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Returns plain copies of arguments."""
        return thaw(plain_arguments(self.validate(args)))  # type: ignore[no-any-return]

    def judged(self, own: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns arguments as rules read them."""
        return plain_arguments(own)

    def edited(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments that a tool gets for a reviewer's edits."""
        return dict(self.validate(args))


# --- calls


_DISCARDED = "the host discards all hand-offs of a message but the first; propose this one by itself"


class AutoGenInvocation(ToolInvocation[AutoGenScope]):
    """One call of a tool, or of an executor of code.

    Args:
        adapter: has the guard.
        name: the name of the tool.
        proposed: the arguments.
        arguments: reads them.
        read_outcome: reads what the tool returns.
        to: the agent to which the tool hands the conversation over, as the event `handoff(to=...)`; None for others.
    """

    def __init__(
        self,
        adapter: HostAdapter[AutoGenScope],
        name: str,
        proposed: Any,
        arguments: AutoGenArguments | NamedArguments,
        read_outcome: Callable[[Any], Outcome],
        to: str | None = None,
    ) -> None:
        super().__init__(adapter, name if to is None else HANDOFF, adapter.around())
        self._proposed, self._arguments, self._read_outcome, self._to = proposed, arguments, read_outcome, to

    def bind(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._arguments.copied(self._proposed), {}

    def rebind(self, edited: Mapping[str, Any]) -> dict[str, Any]:
        return self._arguments.edited(edited)

    def plain(self) -> Mapping[str, Any]:
        return self._shown(self.own)

    def options(self) -> dict[str, Any]:
        options, around, turn = super().options(), self.around, self.around.turn
        if around.run is not None and turn is not None:
            options |= {"step": f"{around.run.id}.{turn.id}.{turn.step}", "agent": turn.agent}
            if around.call is None:
                options |= {"messages": turn.messages, "seen": turn.seen}
        return {**options, "action": HANDOFF} if self.name == HANDOFF else options

    def judge(self, call: HostCall) -> Procedure[JudgedCall]:
        """Judges a call. Of several hand-offs in a message the host discards all but the first."""
        turn = self.around.turn
        if self._to is None or turn is None or turn.handoffs.setdefault(turn.step, call.id) == call.id:
            return (yield from super().judge(call))
        return (yield from self.guard.lifecycle.refuse(call, _DISCARDED)), call

    def inside(self, call: HostCall) -> AutoGenScope:
        return replace(self.around, conversation=call.conversation, call=call, turn=None, tool_id=None)

    def outcome(self, output: Any) -> Outcome:
        return self._read_outcome(output)

    def _shown(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        judged = self._arguments.judged(args)
        return judged if self._to is None else {"to": self._to, **({"input": judged} if judged else {})}

    def _hosts(self, args: Mapping[str, Any]) -> dict[str, Any]:
        if self._to is None:
            return dict(args)
        if args.get("to") != self._to or args.keys() - {"to", "input"}:
            raise InputError(f"the hand-off leads to {self._to!r}; expected another 'input' at most")
        return dict(args.get("input", {}))


# --- final answers


@dataclass(slots=True)
class AnswerHold:
    """Holds the events of a run until its answer has passed.

    Attributes:
        adapter: judges the answer.
        around: the surroundings of the run.
        name: the name of the agent or team.
        task: the messages of the user.
        context: the context of the agent's model; None for a team.
    """

    adapter: HostAdapter[AutoGenScope]
    around: AutoGenScope
    name: str
    task: Sequence[Any]
    context: Any = None
    events: list[Any] = field(default_factory=list)

    async def judged(self, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """Yields the events if the answer may pass; else the reason why it is withheld."""
        start = len(_messages_of(self.context))
        async with aclosing(events) as running:
            async for event in running:
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
        shown = [event for event in map(_message_of, self.events) if event is not None and not self._asks(event)]
        texts = [text for text in map(spoken_text, shown) if text is not None and text != final]
        if final is not None and not any(texts):
            return None  # the guard's own answer
        requests = [message if isinstance(message, str) else message.to_text() for message in self.task]
        request = requests[-1] if requests else ""
        return await adrive(self.adapter.answer_denial(self.around, request, "\n".join(dict.fromkeys(texts))))

    def _withheld(self, text: str) -> list[Any]:
        """Returns the end of a run whose answer is denied."""
        message, last = TextMessage(content=text, source=self.name), self.events[-1]
        if not isinstance(last, TaskResult):
            return [Response(chat_message=message, inner_messages=[])]
        messages = [*(message for message in last.messages if self._asks(message)), message]
        return [*messages, TaskResult(messages=messages)]

    def _asks(self, message: Any) -> bool:
        """Whether it is the user's message."""
        if any(
            isinstance(request, str) and message.source == "user" and message.to_text() == request
            for request in self.task
        ):
            return True
        return any(message.id == request.id for request in self.task if isinstance(request, BaseChatMessage))

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
