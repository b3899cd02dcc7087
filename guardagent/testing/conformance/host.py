"""The host's interface to the scenarios: a shop, the processes of its operator, and a desk for approvals.

The tools of the shop have side effects; its book records what those of all processes really did. Agents in a process
follow scripts. Where a host requests approval within the call, the run waits at the desk for the answer.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from guardagent.enforcement import Approval, EnforcementPoint, SqliteLedger, ToolGuard
from guardagent.enforcement.stops import StopFile, new_stop
from guardagent.types import Decision, Verdict

SECRET = "47x11"  # noqa: S105 - of nobody; no random identifier has an x
"""A secret that `get_order` returns and no answer may contain."""

REFUSALS: dict[str, Any] = {  # code -> the ways in which a login says that it failed
    "text": "Error: wrong code",
    "list": ["Your login.", "Error: wrong code"],
}


class Shop:
    """A shop. `Shop(folder)` in another process, such as a server's, is the same shop.

    Args:
        folder: the folder of its book.

    Attributes:
        when_paid: order -> called once a tool in this process has paid it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.when_paid: dict[str, Callable[[], None]] = {}
        self._book = folder / "book.jsonl"

    # --- its tools

    async def authenticate(self, email: str, code: str = "right") -> Any:
        """Lets a customer in; a code out of REFUSALS does not."""
        if code in REFUSALS:
            return REFUSALS[code]
        self._note("authenticate", email)
        return "welcome"

    async def refund(self, order_id: str, amount: int = 500) -> str:
        """Pays an order back: 500 unless another amount is given."""
        self._note("refund", order_id, amount)
        self.when_paid.get(order_id, bool)()
        while self._flag(f"held {order_id}").exists():  # noqa: ASYNC110 - another process may let go
            await asyncio.sleep(0.01)
        if self._flag("silent").exists():
            self.lose_answer()
        return f"refunded {amount} of {order_id}"

    async def get_order(self, order_id: str) -> str:
        """Returns the secret, which no answer may contain."""
        return f"{order_id}, PIN {SECRET}"

    async def payout(self, amount: int) -> str:
        """Pays an amount; no rule names this tool."""
        self._note("payout", amount)
        return "paid"

    def tool(self, name: str) -> Callable[..., Any]:
        """One of the above."""
        tool: Callable[..., Any] = getattr(self, name)
        return tool

    def lose_answer(self) -> None:
        """Loses the answer of a tool that did its work. A server's process ends here instead."""
        raise TimeoutError("no answer in time")

    # --- what was done

    @property
    def refunds(self) -> list[tuple[Any, Any]]:
        """(order, amount) of each refund that was paid."""
        return [(line[1], line[2]) for line in self._lines() if line[0] == "refund"]

    @property
    def logins(self) -> list[Any]:
        """The customers that logged in."""
        return [line[1] for line in self._lines() if line[0] == "authenticate"]

    @property
    def payouts(self) -> list[Any]:
        """The amounts that `payout` paid."""
        return [line[1] for line in self._lines() if line[0] == "payout"]

    # --- what a scenario sets

    def hold(self, order_id: str) -> None:
        """A refund of this order does not come back once it has paid, until the shop lets go."""
        self._flag(f"held {order_id}").touch()

    def let_go(self, order_id: str) -> None:
        """Ends the effect of the method above."""
        self._flag(f"held {order_id}").unlink()

    def fall_silent(self) -> None:
        """The answer of a refund is lost once it has paid."""
        self._flag("silent").touch()

    def speak_again(self) -> None:
        """Ends the effect of the method above."""
        self._flag("silent").unlink()

    def _lines(self) -> list[Any]:
        return [json.loads(line) for line in self._book.read_text().splitlines()] if self._book.exists() else []

    def _note(self, *what: Any) -> None:
        with self._book.open("a") as book:
            book.write(json.dumps(what) + "\n")

    def _flag(self, name: str) -> Path:
        return self.folder / name


Call = tuple[str, Mapping[str, Any] | str]
"""A tool and its arguments, as a model proposes them: an object, or the text that it writes where one belongs."""


class OneId(tuple[Call, ...]):
    """The calls of a message to all of which the model gives one id."""

    __slots__ = ()


_numbers = itertools.count(1)


def call_ids(calls: Sequence[Call]) -> list[str]:
    """Returns the ids that a model gives to the calls of a message."""
    fresh = [f"call_{next(_numbers)}" for _ in calls]
    return fresh[:1] * len(fresh) if isinstance(calls, OneId) else fresh


def written(args: Mapping[str, Any] | str) -> str:
    """Returns arguments as the text of a model, for hosts that read this."""
    return args if isinstance(args, str) else json.dumps(dict(args))


def as_object(args: Mapping[str, Any] | str) -> dict[str, Any]:
    """Returns arguments as an object, for hosts whose models give no text: of a text, one that no tool expects."""
    return {"arguments": args} if isinstance(args, str) else dict(args)


@dataclass(frozen=True, slots=True)
class SubAgent:
    """The agent calls another agent as one of its tools.

    Attributes:
        script: the other agent's script.
        where: `task`: the tool awaits it. `other id`: it runs under its own conversation id, in a thread that inherits
            the context, as those of `asyncio.to_thread` do. `thread`: in a thread that inherits nothing.
    """

    script: Script
    where: Literal["task", "other id", "thread"] = "task"

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs the other agent in the place that the script names."""
        if self.where == "task":
            return await work
        if self.where == "other id":
            return await asyncio.to_thread(asyncio.run, work)
        done: list[Any] = []
        thread = threading.Thread(target=lambda: done.append(asyncio.run(work)))
        thread.start()
        await asyncio.to_thread(thread.join)
        return done[0]


@dataclass(frozen=True, slots=True)
class HandOff:
    """The agent hands the conversation over to another agent."""

    script: Script


Turn = str | Sequence[Call] | SubAgent | HandOff
Script = Sequence[Turn]
"""A model's turns: the calls of a message, or a final text. After the last turn the model answers `done`."""


class NoSecrets:
    """Judges final answers in place of a GuardAgent: denies an answer with the secret."""

    def guard(self, agent_input: str, output: str, facts: Any = None) -> Verdict:  # noqa: ARG002 - as of a GuardAgent
        leaks = SECRET in output
        return Verdict(Decision.DENY if leaks else Decision.ALLOW, reasons=("it tells a PIN",) if leaks else ())


@dataclass(frozen=True)
class Operator:
    """An operator's configuration, shared by the operator's processes.

    Attributes:
        shop: the shop with the agent's tools.
        policies: the policy file.
        ledger: the ledger file that all processes share; None if each has a ledger in memory.
        tools: the names of the agent's tools at the start.
        answers: whether final answers are judged.
        direct: tools whose output is the final answer, if the host has such tools.
        retries: the host's retries of a call that raised an error, if it supports them.
        kept: the host's data that outlives a process, such as checkpoints.
        make_guard: makes the guard of a process from this operator and the options of `guard`; None for a ToolGuard.
        stops: the stop file of each ToolGuard; None if nothing is stopped.
        make_stop: stops what it names for the guards of `make_guard`. Returns the calls that may still run.
    """

    shop: Shop
    policies: Path
    ledger: Path | None
    tools: tuple[str, ...] = ("authenticate", "refund", "get_order")
    answers: bool = False
    direct: frozenset[str] = frozenset()
    retries: int = 0
    kept: dict[str, Any] = field(default_factory=dict)
    make_guard: Callable[..., EnforcementPoint] | None = None
    stops: Path | None = None
    make_stop: MakeStop | None = None

    def guard(self, **options: Any) -> EnforcementPoint:
        """Builds the guard of one process; call it once, not for each agent."""
        options = {"answers": NoSecrets() if self.answers else None, **options}
        if self.make_guard is not None:
            return self.make_guard(self, **options)
        own = {"ledger": self.ledger and SqliteLedger(self.ledger), "stop_file": self.stops}
        return ToolGuard(self.policies, **{**own, **options})

    def stop(self, **named: str) -> Sequence[Call]:
        """Stops the calls that fit the names, such as `tool="refund"`, or all. Returns those that may still begin."""
        if self.make_guard is None and self.stops is not None:
            StopFile(self.stops, create=True).add(new_stop("wrong refunds", "ann", named))
            return ()
        if self.make_stop is None:
            raise NotImplementedError("make_stop")
        return self.make_stop(self, named)


MakeStop = Callable[[Operator, Mapping[str, str]], Sequence[Call]]
"""Makes a stop. Returns the calls that may still run."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The result of a run.

    Attributes:
        shown: all output that the user has seen, streamed or at the end.
        question: the approval request that the run waits for, in the host's own form; None if it does not wait.
    """

    shown: str = ""
    question: Any = None


class Process(ABC):
    """A process of an operator. It has one guard; each run builds its agent anew, as web services do."""

    @abstractmethod
    async def run(
        self,
        script: Script,
        *,
        conversation: str = "c1",
        history: Sequence[tuple[Call, str]] = (),
        stream: bool = False,
    ) -> Reply:
        """Runs an agent whose model follows a script. Cancelling this cancels the run.

        Args:
            script: the model's turns.
            conversation: its id.
            history: forged calls with results: the host's messages show them, and they never ran.
            stream: whether the run streams its output.
        """

    async def answer(self, question: Any, approval: Approval) -> Reply:
        """Answers a request of this or another process, and continues the run."""
        raise NotImplementedError("answer")

    def model_input(self) -> str:
        """Returns, as text, what the models of this process have read last: the results of the tools among it."""
        raise NotImplementedError("model_input")

    async def swap(self, question: Any, args: Mapping[str, Any]) -> None:
        """Changes the arguments of the waiting call in the host's storage, after the request."""
        raise NotImplementedError("swap")

    async def add(self, tool: str) -> None:
        """Adds a tool of the shop to the agent, or to its server, after the start."""
        raise NotImplementedError("add")


class HostUnderTest(Protocol):
    """A host and its adapter.

    Attributes:
        name: for the matrix.
    """

    name: str

    @property
    def cannot(self) -> Mapping[str, str]:
        """The reason for each omitted scenario: `cannot occur because ...`, or `cannot be closed because ...`."""
        ...

    def process(self, operator: Operator) -> AbstractAsyncContextManager[Process]:
        """Starts a process. A library host may simulate it by another guard in this process."""
        ...


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
