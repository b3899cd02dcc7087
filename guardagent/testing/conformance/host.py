"""A host as the scenarios see it: processes of an operator, in which agents follow scripts."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from guardagent.enforcement import Approval, SqliteLedger, ToolGuard
from guardagent.testing.conformance.shop import SECRET, Shop
from guardagent.types import Decision, Verdict

Call = tuple[str, Mapping[str, Any]]
"""A tool and its arguments, as a model proposes them."""


@dataclass(frozen=True, slots=True)
class SubAgent:
    """The agent has another agent work on something, as one of its tools.

    Attributes:
        script: of the other agent.
        where: `task`: the tool awaits it. `other id`: under a conversation id of its own, and in a thread that inherits
            the context, as those of `asyncio.to_thread` do. `thread`: so, in one that inherits nothing.
    """

    script: Script
    where: Literal["task", "other id", "thread"] = "task"

    async def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs what makes up the other agent, where the script wants it."""
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
    """The agent hands the conversation over to another one, which goes on with it."""

    script: Script


Turn = str | Sequence[Call] | SubAgent | HandOff
Script = Sequence[Turn]
"""What a model says, turn by turn: the calls of a message, or a final text. Where it ends the model says `done`."""


class NoSecrets:
    """Judges final answers, in place of a GuardAgent: none tells the secret."""

    def guard(self, agent_input: str, output: str, facts: Any = None) -> Verdict:  # noqa: ARG002 - as of a GuardAgent
        leaks = SECRET in output
        return Verdict(Decision.DENY if leaks else Decision.ALLOW, reasons=("it tells a PIN",) if leaks else ())


@dataclass(frozen=True)
class Operator:
    """What an operator has set up. The processes of one operator share it.

    Attributes:
        shop: whose tools the agent has.
        policies: the file of the rules.
        ledger: the file of the ledger that all processes share; None where each has its own, in memory.
        tools: the names of the agent's tools, at the start.
        answers: whether final answers are judged.
        direct: tools whose output is the final answer, where the host has such.
        retries: how often the host runs a call again that raised, where it can.
        kept: what the host keeps over processes, such as its checkpoints.
    """

    shop: Shop
    policies: Path
    ledger: Path | None
    tools: tuple[str, ...] = ("authenticate", "refund", "get_order")
    answers: bool = False
    direct: frozenset[str] = frozenset()
    retries: int = 0
    kept: dict[str, Any] = field(default_factory=dict)

    def guard(self, **options: Any) -> ToolGuard:
        """The guard of one process: make it once, and not for each agent."""
        ledger, answers = self.ledger and SqliteLedger(self.ledger), NoSecrets() if self.answers else None
        return ToolGuard(self.policies, **{"ledger": ledger, "answers": answers, **options})


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a run.

    Attributes:
        shown: all that the user has seen of it, streamed or at its end.
        question: what a person is asked, where the run waits for one: whatever the host needs to answer it.
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
        """Runs an agent whose model follows a script. Where this is cancelled, the run is.

        Args:
            script: what the model says.
            conversation: its id.
            history: calls with results that the host's messages show, and that never ran.
            stream: the user sees the run while it goes on.
        """

    async def answer(self, question: Any, approval: Approval) -> Reply:
        """A person has read a question, in this process or another one, and answers; the run goes on."""
        raise NotImplementedError("answer")

    async def swap(self, question: Any, args: Mapping[str, Any]) -> None:
        """Somebody changes the arguments of the call that waits, where the host keeps it, after the question."""
        raise NotImplementedError("swap")

    async def add(self, tool: str) -> None:
        """The agent, or the server that has its tools, gets another tool of the shop after the start."""
        raise NotImplementedError("add")


class HostUnderTest(Protocol):
    """A host and its adapter.

    Attributes:
        name: for the matrix.
    """

    name: str

    @property
    def cannot(self) -> Mapping[str, str]:
        """Scenario -> why it is not played: `cannot occur because ...`, or `cannot be closed because ...`."""
        ...

    def process(self, operator: Operator) -> AbstractAsyncContextManager[Process]:
        """Starts a process; in a host that is a library that may be one more guard in this very process."""
        ...
