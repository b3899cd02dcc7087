"""The tests that all hosts share: conformance, here and with a server, the programs of the page, and a cast of agents.

HOSTS = {"agent": ProcessHost("AG2", CANNOT["AG2"], Ag2Process)}
test_conformance = conformance_test(HOSTS)
test_conformance_with_a_server = server_conformance_test(HOSTS)
test_the_page_does_what_it_says = page_test("ag2", "ag2.config.openai", "openai")
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from guardagent.enforcement import Approval
from guardagent.testing.conformance import (
    SCENARIOS,
    Call,
    Desk,
    HandOff,
    HostUnderTest,
    Operator,
    Process,
    Reply,
    Script,
    SubAgent,
    check,
)
from tests.docs.host_page import REFUNDS, run_page
from tests.tiers import slow_after

Hosts = Mapping[str, HostUnderTest | Callable[[str], HostUnderTest]]
"""Form of a host -> the host, or what returns it for a scenario."""


@dataclass
class ProcessHost:
    """A host under test whose processes are objects of one class.

    Attributes:
        name: for the matrix.
        cannot: the reason for each omitted scenario.
        start: returns a process of an operator.
    """

    name: str
    cannot: Mapping[str, str]
    start: Callable[[Operator], Process]

    @asynccontextmanager
    async def process(self, operator: Operator) -> AsyncIterator[Process]:
        """Starts a process."""
        yield self.start(operator)


def conformance_test(hosts: Hosts, scenarios: Iterable[Any] = SCENARIOS) -> Callable[..., None]:
    """Returns a test of a host in all its forms, by all scenarios."""

    @pytest.mark.parametrize("form", hosts)
    @pytest.mark.parametrize("scenario", scenarios)
    def test_conformance(scenario: str, form: str, tmp_path: Path) -> None:
        """The shop did only what the rules allow."""
        check(_host(hosts[form], scenario), scenario, tmp_path)

    return test_conformance


def server_conformance_test(hosts: Hosts, scenarios: Iterable[str] = SCENARIOS, quick: int = 0) -> Callable[..., None]:
    """As above, with a RemoteGuard: the rules, the history and the answers are on a server. All but some are slow."""

    @pytest.mark.parametrize("form", hosts)
    @pytest.mark.parametrize("scenario", slow_after(quick, scenarios))
    def test_conformance_with_a_server(scenario: str, form: str, tmp_path: Path) -> None:
        """The shop did only what the rules allow."""
        pytest.importorskip("uvicorn")
        from tests.remote_guards import remote_check

        remote_check(_host(hosts[form], scenario), scenario, tmp_path)

    return test_conformance_with_a_server


def _host(host: HostUnderTest | Callable[[str], HostUnderTest], scenario: str) -> HostUnderTest:
    return host(scenario) if callable(host) else host


def page_test(page: str, *needs: str, turns: Any = REFUNDS) -> Callable[..., None]:
    """Returns a test that runs the programs of docs/hosts/PAGE.md unchanged, if its modules are installed."""

    def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The program blocks a real call; the model, behind HTTP, reads why and asks for less."""
        for module in needs:
            pytest.importorskip(module, exc_type=ImportError)
        requests = run_page(page, tmp_path, monkeypatch, turns)
        assert "refund 100 or less" in str(requests[1])

    return test_the_page_does_what_it_says


def renamed(calls: Sequence[Call], name: Callable[[str], str]) -> Sequence[Call]:
    """Returns the calls of a message with the names that a host gives to its tools."""
    return type(calls)((name(tool), args) for tool, args in calls)  # type: ignore[call-arg]


class DeskProcess(Process):
    """A process whose runs wait at the desk for a person's answers."""

    tools: list[str]

    async def run(
        self,
        script: Script,
        *,
        conversation: str = "c1",
        history: Sequence[tuple[Call, str]] = (),
        stream: bool = False,
    ) -> Reply:
        return await Desk().run(self.talk(script, conversation, history, stream=stream))

    @abstractmethod
    async def talk(
        self, script: Script, name: str, history: Sequence[tuple[Call, str]] = (), *, stream: bool = False
    ) -> Reply:
        """Plays a script in a conversation."""

    async def answer(self, question: Any, approval: Approval) -> Reply:
        return await Desk.answer(question, approval)

    async def add(self, tool: str) -> None:
        self.tools.append(tool)


class Team(NamedTuple):
    """The models of an agent, of its hand-off target and of its sub-agents, which outlive the agents."""

    model: Any
    second: Any
    inner: list[tuple[SubAgent, Any]]


def team_of(
    script: Script,
    model: Callable[[list[Any]], Any],
    hand_over: Sequence[Any],
    task: Mapping[str, Any] | None = None,
    name: str = "delegate",
) -> Team:
    """Returns the models that play a script.

    Args:
        script: the turns of the first agent.
        model: returns a model that says some turns.
        hand_over: the turns with which the host hands over to the agent `second`.
        task: the arguments with which a model calls a sub-agent as a tool.
        name: the name of a sub-agent as a tool, before its number. Others are `delegate_1`, ...
    """
    turns: list[Any] = []
    inner: list[tuple[SubAgent, Any]] = []
    second = None
    for turn in script:
        if isinstance(turn, HandOff):
            second = team_of(turn.script, model, hand_over, task, name)
            turns += hand_over
        elif isinstance(turn, SubAgent):
            inner.append((turn, team_of(turn.script, model, hand_over, task, name)))
            is_task = turn.where == "task"
            turns.append([(f"{name if is_task else 'delegate'}_{len(inner)}", dict(task or {}) if is_task else {})])
        else:
            turns.append(turn)
    return Team(model(turns), second, inner)
