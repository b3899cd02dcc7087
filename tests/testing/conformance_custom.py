"""A small agent framework with its own adapter, which supports everything that the scenarios need.

Each part is a method, so that the tests of the suite can break one at a time.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent.enforcement import Approval, HostCall, Outcome, make_ids_unique
from guardagent.enforcement.approval import edit_note, with_edits
from guardagent.errors import InputError
from guardagent.testing.conformance import (
    Call,
    HandOff,
    Operator,
    Process,
    Reply,
    Script,
    SubAgent,
    Turn,
    as_object,
    call_ids,
)
from guardagent.types import Decision

_ids = itertools.count(1)


@dataclass
class Talk:
    """A run of an agent in a conversation, at its current turn."""

    conversation: str
    script: Iterator[Turn]
    seen: tuple[str, ...] = ()
    stream: bool = False
    waiting: list[str] = field(default_factory=list)


class CustomProcess(Process):
    def __init__(self, operator: Operator) -> None:
        self.operator, self.guard = operator, operator.guard()
        self.known = set(operator.tools)  # the tools at the start, which are accepted
        self.tools = set(operator.tools)
        self.read = ""
        self.requests: dict[str, tuple[Talk, HostCall, str]] = (
            operator.kept
        )  # call id -> the call that waits for approval

    async def run(
        self,
        script: Script,
        *,
        conversation: str = "c1",
        history: Sequence[tuple[Call, str]] = (),
        stream: bool = False,
    ) -> Reply:
        self.read = ""
        seen = tuple(self.believed(conversation, call, output) for call, output in history)
        return await self.go_on(Talk(conversation, iter(script), seen, stream))

    async def answer(self, question: Any, approval: Approval) -> Reply:
        talk, call, shown = self.requests[question]
        if (verdict := await self.guard.abefore(call)).decision is Decision.ESCALATE:
            approval = replace(approval, of=approval.of or shown)
            verdict = await self.guard.aresolve(call, approval)
            if not verdict.label:
                edited = with_edits(call, approval)
                await self.execute(edited)
                self.read += self.noted(call, edited)
        talk.waiting = [open_question for open_question in talk.waiting if open_question != question]
        return await self.go_on(talk)

    async def swap(self, question: Any, args: Mapping[str, Any]) -> None:
        talk, call, shown = self.requests[question]
        self.requests[question] = (talk, replace(call, args=args), shown)

    def model_input(self) -> str:
        return self.read

    async def add(self, tool: str) -> None:
        self.tools.add(tool)

    async def go_on(self, talk: Talk) -> Reply:
        shown = ""
        while not talk.waiting:
            turn = next(talk.script, "done")
            if isinstance(turn, str):
                return Reply(shown + self.answered(talk, turn))
            if isinstance(turn, SubAgent):
                await self.run_sub_agent(talk, turn)
            elif isinstance(turn, HandOff):
                talk = await self.hand_over(talk, turn)
            else:
                calls = [self.proposed(talk, tool, self.parsed(args)) for tool, args in turn]
                identified = zip(calls, self.ids(turn), strict=True)
                named = [replace(call, id=call_id) for call, call_id in identified if call is not None]
                waiting = await asyncio.gather(*(self.call(talk, call) for call in named))
                talk.waiting = [question for question in waiting if question is not None]
                if len(turn) == 1 and turn[0][0] in self.operator.direct and not talk.waiting:
                    return Reply(
                        shown + self.direct(talk, await self.operator.shop.tool(turn[0][0])(**as_object(turn[0][1])))
                    )
        return Reply(shown, talk.waiting[0])

    # --- parts that a test may break

    def ids(self, turn: Sequence[Call]) -> list[str]:
        """Returns the ids of the calls of a message, as the guard tells them apart."""
        return make_ids_unique([{"id": call_id} for call_id in call_ids(turn)], "id")

    def parsed(self, args: Mapping[str, Any] | str) -> Mapping[str, Any]:
        """Returns the arguments that a model has written; of malformed ones, some that no tool takes."""
        return as_object(args)

    def proposed(self, talk: Talk, tool: str, args: Mapping[str, Any]) -> HostCall | None:
        """Returns the call with the arguments that the tool would get; None if they do not fit."""
        try:
            if tool not in self.known:
                raise InputError(f"unknown tool {tool}")  # noqa: TRY301 - one handler for all errors
            bound = inspect.signature(self.operator.shop.tool(tool)).bind(**args)
        except (InputError, TypeError) as error:
            self.guard.refuse(HostCall(tool, args, talk.conversation), str(error))
            return None
        bound.apply_defaults()
        return HostCall(tool, bound.arguments, talk.conversation, f"call-{next(_ids)}", seen=talk.seen)

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        """Runs an allowed call. Returns its id if it needs approval first."""
        verdict = await self.guard.abefore(call)
        if verdict.decision is Decision.ESCALATE:
            self.requests[call.id] = (talk, call, call.digest)
            return call.id
        if not verdict.label:
            await self.execute(call)
        else:
            self.read += verdict.feedback()
        return None

    async def execute(self, call: HostCall) -> None:
        try:
            args = await self.guard.ause(call)
        except InputError:
            return
        try:
            async with asyncio.timeout(self.seconds(call)):
                output = await self.operator.shop.tool(call.tool)(**args)
        except BaseException as error:
            self.guard.after(call, self.ended(error))
            if not isinstance(error, Exception):
                raise
        else:
            await self.guard.aafter(call, Outcome(self.output(output)))

    def seconds(self, call: HostCall) -> float | None:
        """Returns the time that the policy gives a tool."""
        return self.guard.lifecycle.timeout(call)

    def noted(self, call: HostCall, edited: HostCall) -> str:
        """Returns the line with which the model reads what ran."""
        return edit_note(call, edited.args)

    def ended(self, error: BaseException) -> Outcome:
        return Outcome.of_error(error)

    def output(self, output: Any) -> Any:
        return output

    def believed(self, conversation: str, call: Call, output: str) -> str:
        """Returns the id of a call that a message shows."""
        return f"shown-{next(_ids)}"

    def answered(self, talk: Talk, text: str) -> str:
        """Returns the answer that the user sees."""
        return "" if self.guard.answer(talk.conversation, "", text).label else text

    def direct(self, talk: Talk, output: str) -> str:
        return self.answered(talk, output)

    async def hand_over(self, talk: Talk, turn: HandOff) -> Talk:
        return replace(talk, script=iter(turn.script))

    async def run_sub_agent(self, talk: Talk, turn: SubAgent) -> None:
        await self.run(turn.script, conversation=talk.conversation)


class CustomHost:
    name = "the custom host"
    cannot: Mapping[str, str] = {}

    def __init__(self, process: type[CustomProcess] = CustomProcess) -> None:
        self._process = process

    @asynccontextmanager
    async def process(self, operator: Operator) -> AsyncIterator[CustomProcess]:
        yield self._process(operator)
