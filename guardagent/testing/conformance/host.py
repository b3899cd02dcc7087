"""The host's interface to the scenarios: processes of an operator, in which agents follow scripts."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from guardagent.enforcement import Approval, EnforcementPoint, SqliteLedger, ToolGuard
from guardagent.testing.conformance.shop import SECRET, Shop
from guardagent.types import Decision, Verdict

Call = tuple[str, Mapping[str, Any]]
"""A tool and its arguments, as a model proposes them."""


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

    def guard(self, **options: Any) -> EnforcementPoint:
        """Builds the guard of one process; call it once, not for each agent."""
        options = {"answers": NoSecrets() if self.answers else None, **options}
        if self.make_guard is not None:
            return self.make_guard(self, **options)
        return ToolGuard(self.policies, **{"ledger": self.ledger and SqliteLedger(self.ledger), **options})


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
