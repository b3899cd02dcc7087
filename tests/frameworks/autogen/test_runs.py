"""Runs of AutoGen's teams compared with their graphs: every turn is an edge. Models answer at random."""
# mypy: disable-error-code="misc,name-defined"

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import END, START, Graph

pytest.importorskip("autogen_agentchat", reason="AutoGen AgentChat is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

agents: Any = pytest.importorskip("autogen_agentchat.agents")
base = pytest.importorskip("autogen_agentchat.base")
conditions = pytest.importorskip("autogen_agentchat.conditions")
core = pytest.importorskip("autogen_core")
messages = pytest.importorskip("autogen_agentchat.messages")
models = pytest.importorskip("autogen_core.models")
teams: Any = pytest.importorskip("autogen_agentchat.teams")
replay: Any = pytest.importorskip("autogen_ext.models.replay", reason="AutoGen's extensions are not installed")

WORDS = ("yes", "no", "maybe", "yes STOP")
INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}


class Draw:
    """Random choices, and who spoke in a run."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.spoke: list[str] = []


class ScriptedAgent(agents.BaseChatAgent):
    """An agent that says one of some words, and notes that it spoke."""

    def __init__(self, name: str, draw: Draw) -> None:
        super().__init__(name, "a step")
        self.draw = draw

    @property
    def produced_message_types(self) -> tuple[type, ...]:
        return (messages.TextMessage,)

    async def on_messages(self, _messages: Any, _token: Any) -> Any:
        self.draw.spoke.append(self.name)
        word = self.draw.random.choice(WORDS)
        return base.Response(chat_message=messages.TextMessage(content=word, source=self.name))

    async def on_reset(self, _token: Any) -> None:
        pass


class Chooser(replay.ReplayChatCompletionClient):
    """A model that calls one of its tools, or answers with one of some words, at random."""

    def __init__(self, draw: Draw, answers: Iterable[str]) -> None:
        super().__init__([], model_info=INFO)
        self.draw, self.answers = draw, list(answers)

    async def create(self, *_args: Any, tools: Any = (), **_more: Any) -> Any:
        names = [tool["name"] if isinstance(tool, dict) else tool.name for tool in tools]
        chosen = self.draw.random.choice([*names, None])
        content: Any = self.draw.random.choice(self.answers)
        if chosen is not None:
            content = [core.FunctionCall(id="1", name=chosen, arguments="{}")]
        usage = models.RequestUsage(prompt_tokens=0, completion_tokens=0)
        return models.CreateResult(finish_reason="stop", content=content, usage=usage, cached=False)


def runs(team: Any, draw: Draw, times: int = 5) -> list[list[str]]:
    """The speakers of several runs, in order."""
    return asyncio.run(_runs(team, draw, times))


async def _runs(team: Any, draw: Draw, times: int) -> list[list[str]]:
    runs = []
    for _ in range(times):
        draw.spoke.clear()
        result = await team.run(task="x")
        runs.append(list(draw.spoke) or spoke_in(result))
        await team.reset()
    return runs


def is_path(graph: Graph, spoke: list[str]) -> bool:
    """Whether each turn of a run follows the one before it by an edge, to the end."""
    edges = {(edge.source, edge.target) for edge in graph.edges}
    return set(itertools.pairwise([START, *spoke, END])) <= edges


def stop(draw: Draw, most: int = 30) -> dict[str, Any]:
    """A random termination condition."""
    limits = {"max_turns": draw.random.randint(1, 6)}
    mention = {"termination_condition": conditions.TextMentionTermination("STOP"), "max_turns": most}
    return draw.random.choice([limits, mention])


def steps(draw: Draw, names: Iterator[str], most: int = 4) -> list[Any]:
    return [ScriptedAgent(name, draw) for name in itertools.islice(names, draw.random.randint(2, most))]


def names_of(letter: str) -> Iterator[str]:
    return (f"{letter}{number}" for number in itertools.count())


@pytest.mark.parametrize("seed", range(10))
def test_rounds_run_along_their_edges(seed: int) -> None:
    """Round robins, some with a team inside that goes on where it stopped."""
    draw, names = Draw(seed), names_of("n")
    members = steps(draw, names)
    if seed % 2:
        inner = teams.RoundRobinGroupChat(steps(draw, names), name="inner", **stop(draw))
        members.insert(draw.random.randrange(len(members) + 1), inner)
    team = teams.RoundRobinGroupChat(members, **stop(draw))
    graph = extract(team)
    for spoke in runs(team, draw):
        assert is_path(graph, spoke), spoke


@pytest.mark.parametrize("seed", range(10))
def test_selectors_run_along_their_edges(seed: int) -> None:
    """Random models and functions choose the next speaker by the last one."""
    draw, names = Draw(seed), names_of("n")
    members = steps(draw, names)
    model = Chooser(draw, [member.name for member in members])

    def follows(thread: Any) -> Any:
        if thread[-1].source == "n0":
            return "n1"
        return None

    more: dict[str, Any] = {"selector_func": follows} if seed % 2 else {"allow_repeated_speaker": seed % 4 == 0}
    team = teams.SelectorGroupChat(members, model_client=model, max_selector_attempts=99, **more, **stop(draw))
    graph = extract(team)
    for spoke in runs(team, draw):
        assert is_path(graph, spoke), spoke


@pytest.mark.parametrize("seed", range(10))
def test_swarms_run_along_their_edges(seed: int) -> None:
    """Agents that hand off to each other, and to a person outside, as a model says at random."""
    draw = Draw(seed)
    names = [f"n{number}" for number in range(draw.random.randint(2, 4))]
    members = [
        agents.AssistantAgent(
            name, model_client=Chooser(draw, WORDS), handoffs=draw.random.sample([*names, "person"], 2)
        )
        for name in names
    ]
    condition = conditions.HandoffTermination("person") | conditions.TextMentionTermination("STOP")
    team = teams.Swarm(members, termination_condition=condition, max_turns=20)
    graph = extract(team)
    for spoke in runs(team, draw):
        assert is_path(graph, spoke), spoke


def spoke_in(result: Any) -> list[str]:
    """The speakers of a run by its messages; a final hand-off to a person comes last."""
    replies = [
        message
        for message in result.messages
        if isinstance(message, messages.BaseChatMessage) and message.source != "user"
    ]
    handed = (
        [replies[-1].target]
        if isinstance(replies[-1], messages.HandoffMessage) and replies[-1].target == "person"
        else []
    )
    return [*(reply.source for reply in replies), *handed]


def random_flow(draw: Draw, **more: int) -> Any:
    """A graph at random: to later ones with or without conditions, waiting for all or any, and sometimes back."""
    members = steps(draw, names_of("n"), 6)
    builder = teams.DiGraphBuilder()
    for member in members:
        builder.add_node(member)
    for place, member in enumerate(members):
        later = members[place + 1 :]
        for other in draw.random.sample(later, min(len(later), draw.random.randint(1, 2))):
            builder.add_edge(member, other, condition=draw.random.choice([None, "yes", "no"]), **waits(other))
        if place and more and draw.random.random() < 0.3:
            builder.add_edge(member, members[place - 1], condition="maybe", activation_group="back")
    return teams.GraphFlow(builder.get_participants(), graph=builder.set_entry_point(members[0]).build(), **more)


def waits(target: Any) -> dict[str, str]:
    """For each participant it is the same for all edges of a group."""
    return {"activation_condition": "any" if int(target.name[1:]) % 2 else "all"}


@pytest.mark.parametrize("seed", range(40))
def test_flows_run_along_their_edges(seed: int) -> None:
    """Each turn follows an earlier one; where a run ends, an edge leads to the end, or the node is said to stop."""
    draw = Draw(seed)
    try:
        team = random_flow(draw, **({"max_turns": 12} if seed % 2 else {}))
    except ValueError:  # AutoGen refuses some graphs: those of which a node has edges with and without conditions
        return
    graph = extract(team)
    for spoke in runs(team, draw):
        assert follows_something(graph, spoke), spoke
        assert may_end(graph, spoke[-1]), spoke


def follows_something(graph: Graph, spoke: list[str]) -> bool:
    before = {START}
    for name in spoke:
        if not any(edge.source in before and edge.target == name for edge in graph.edges):
            return False
        before.add(name)
    return True


def may_end(graph: Graph, name: str) -> bool:
    ends = any((edge.source, edge.target) == (name, END) for edge in graph.edges)
    return ends or bool(graph.by_id[name].metadata.get("may_stop"))
