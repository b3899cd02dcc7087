"""For hosts that request approval within the call: the run waits in the background for the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from guardagent.enforcement import Approval
from guardagent.testing.conformance.host import Reply

_desk: ContextVar[Desk] = ContextVar("guardagent_conformance_desk")


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """An approval request, and the run that waits for its answer."""

    desk: Desk
    shown: Any
    answer: asyncio.Future[Approval]


class Desk:
    """The approval requests of one run: `Process.run` is `await Desk().run(work)`, `answer` is `Desk.answer`."""

    def __init__(self) -> None:
        self._questions: list[PendingQuestion] = []
        self._news = asyncio.Event()
        self._work: asyncio.Task[Reply] | None = None

    async def run(self, work: Coroutine[Any, Any, Reply]) -> Reply:
        """Starts a run. Returns its reply, or its first approval request."""
        token = _desk.set(self)
        self._work = asyncio.ensure_future(work)  # it inherits the desk
        _desk.reset(token)
        return await self.next()

    @staticmethod
    async def ask(shown: Any) -> Approval:
        """Waits for an answer; called within the run, such as by `ToolGuard(approver=Desk.ask)`."""
        return await _desk.get().put(shown).answer

    def put(self, shown: Any) -> PendingQuestion:
        """Adds a request from outside the run; the caller awaits its `answer`."""
        question = PendingQuestion(self, shown, asyncio.get_running_loop().create_future())
        self._questions.append(question)
        self._news.set()
        return question

    @staticmethod
    async def answer(question: PendingQuestion, approval: Approval) -> Reply:
        """Answers a request. Returns the run's reply or its next request. A second answer has no effect."""
        if not question.answer.done():
            question.answer.set_result(approval)
        return await question.desk.next()

    async def next(self) -> Reply:
        """Returns the run's reply, or its first unanswered request."""
        assert self._work is not None
        self._work.add_done_callback(lambda _: self._news.set())
        try:
            while not self._work.done():
                waiting = next((question for question in self._questions if not question.answer.done()), None)
                if waiting is not None:
                    return Reply(question=waiting)
                self._news.clear()
                await self._news.wait()
        except asyncio.CancelledError:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
            raise
        return self._work.result()
