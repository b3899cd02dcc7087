"""AutoGen programs read from their source alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent.workflow.python_source.source_graphs import graph_of_source, graphs_of_source
from tests.frameworks.langgraph.test_source import sections, summary
from tests.frameworks.program_files import PROGRAMS, load, shape

Write = Callable[..., Path]

HEAD = """
import asyncio
from autogen_agentchat.agents import AssistantAgent, BaseChatAgent, CodeExecutorAgent, UserProxyAgent
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import (
    DiGraphBuilder, GraphFlow, MagenticOneGroupChat, RoundRobinGroupChat, SelectorGroupChat, Swarm
)
from autogen_agentchat.tools import AgentTool
from autogen_agentchat.ui import Console
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

client = OpenAIChatCompletionClient(model="gpt-4o")

def mail(to: str) -> str:
    "Sends."
    return to

def pay(amount: int) -> str:
    "Pays, if a person agrees."
    return "paid" if input(f"pay {amount}? ") == "y" else "no"
"""

STYLES = """
# in the main part: a:tool+mail+pay! b:human (>a a>b b@a a?) b?)
async def main() -> None:
    a = AssistantAgent("a", model_client=client, tools=[mail, FunctionTool(pay, description="Pays.")])
    b = UserProxyAgent("b", input_func=input)
    stop = TextMentionTermination("OK") | MaxMessageTermination(9)
    team = RoundRobinGroupChat([a, b], termination_condition=stop)
    await Console(team.run_stream(task="x"))

if __name__ == "__main__":
    asyncio.run(main())

# of agents that other files make: plan:llm w:llm editor:llm (>plan plan>w w>editor editor@plan plan?) w?) editor?)
import agents
from agents import make_writer, plan

w = make_writer()
team = RoundRobinGroupChat([plan, w, agents.table["editor"]], max_turns=9)

# a flow of such agents: plan:llm work:llm (>plan plan>work work>)
from agents import plan, table

work = table["work"]
builder = DiGraphBuilder().add_node(plan).add_node(work).add_edge(plan, work)
team = GraphFlow(builder.get_participants(), builder.build())

# of agents that another method sets: plan:llm work:llm (>plan plan>work work@plan plan?) work?)
class Application:
    def __init__(self):
        self.plan = self.work = None

    def start(self):
        agents = create()
        self.plan, self.work = agents["plan"], agents["work"]

    def build(self):
        return RoundRobinGroupChat([self.plan, self.work], max_turns=9)

# with one more under a condition: a:llm b:llm c:llm (>a a?b a?c b?c c@a a?) b?) c?)
import os

team = [AssistantAgent("a", client)]
if os.environ.get("MORE"):
    team.append(AssistantAgent("b", client))
team.append(AssistantAgent("c", client))
team = RoundRobinGroupChat(team, max_turns=9)

# in a handler of AutoGen Core: a:llm (>a a@a a?)
from autogen_core import RoutedAgent, rpc

class Worker(RoutedAgent):
    @rpc
    async def handle(self, message, ctx):
        team = Swarm(participants=[AssistantAgent("a", client)], max_turns=3)
        return await team.run(task=message.text)

# by a function that nothing calls: a:llm b:llm (?a (?b a?b b?a a?) b?)
def build(max_turns=9):
    agents = [AssistantAgent(name=name, model_client=client) for name in ("a", "b")]
    return SelectorGroupChat(agents, model_client=client, max_turns=max_turns)

# by a class: a:llm b:llm (>a a?b a@a b?a b@b a?) b?)
class Service:
    def __init__(self, client):
        self.client = client
        self.team = self._build()

    def _agent(self, name, *targets):
        return AssistantAgent(name, self.client, handoffs=list(targets))

    def _build(self):
        return Swarm([self._agent("a", "b"), self._agent("b", "a")], max_turns=5)

service = Service(client)

# by static methods, of specifications: a:llm b:llm (>a a>b b@a a?) b?)
class Teams:
    NAMES = ("a", "b")

    @staticmethod
    def agent(name, client):
        return AssistantAgent(name, client)

    @classmethod
    def build(cls, client):
        return RoundRobinGroupChat([cls.agent(name, client) for name in cls.NAMES], max_turns=4)

team = Teams.build(client)

# a graph put together in a loop: a:llm b:llm c:llm (>a a>b b>c c>)
builder = DiGraphBuilder()
agents = [AssistantAgent(name, model_client=client) for name in "abc"]
for one in agents:
    builder.add_node(one)
for source, target in zip(agents, agents[1:]):
    builder.add_edge(source, target)
team = GraphFlow(participants=builder.get_participants(), graph=builder.build())

# a graph in a chain, with conditions: a:llm b:llm c:human (>a a?b a?c b>) c>)
a, b = (AssistantAgent(name, model_client=client) for name in ("a", "b"))
c = UserProxyAgent("c")
builder = DiGraphBuilder()
builder.add_node(a).add_node(b).add_node(c)
builder.add_edge(a, b, condition="fine").add_edge("a", "c", condition=lambda m: "fine" not in m.to_model_text())
team = GraphFlow([a, b, c], builder.build())

# a function that chooses: plan:llm do:tool+mail (?plan plan?do do?plan plan?) do?)
PLANNER = "plan"
def choose(messages):
    if messages[-1].source == PLANNER:
        return "do"
    return PLANNER
team = SelectorGroupChat(
    [AssistantAgent(PLANNER, client), AssistantAgent("do", client, tools=[mail])],
    model_client=client, selector_func=choose, max_turns=9,
)

# a team that repeats if the model names no other: a:llm b:llm c:llm d:llm (?a (?c (?d a>b b@a a?c b?c a?d b?d a?a b?a c?a c?d d?a d?c a?) b?) c?) d?)
a, b, c, d = (AssistantAgent(name, model_client=client) for name in "abcd")
team = SelectorGroupChat([RoundRobinGroupChat([a, b], max_turns=2), c, d], model_client=client, max_turns=9)

# equal values that are not the same: b:llm c:llm (>b b>c c@b b?) c?)
one = 1
participants = [
    AssistantAgent("a", client) if one is True else AssistantAgent("b", client),
    AssistantAgent("c", client) if one is not False else AssistantAgent("a", client),
]
team = RoundRobinGroupChat(participants, max_turns=4)

# members by their roles: a:llm h:human (>a a>h h@a a?) h?)
from dataclasses import dataclass
from enum import StrEnum, auto

class Role(StrEnum):
    A = auto()
    H = "h"

@dataclass
class Spec:
    role: Role

    def build(self):
        if self.role is Role.H:
            return UserProxyAgent(self.role.value)
        return AssistantAgent(self.role.value, client)

team = RoundRobinGroupChat([each.build() for each in (Spec(Role.A), Spec(Role.H))], max_turns=4)

# a person outside: a:llm user:human (>a a?user a@a user>) a?)
team = Swarm([AssistantAgent("a", client, handoffs=["user"])], termination_condition=HandoffTermination(target="user"))

# an agent as a tool: b:tool+mail a:tool+b (>a a?b b>a a>)
b = AssistantAgent("b", client, tools=[mail])
agent = AssistantAgent("a", client, tools=[AgentTool(agent=b)])

# an agent of its own that asks: a:human b:llm (>a a>b b@a a?) b?)
class Asker(BaseChatAgent):
    def __init__(self, name):
        super().__init__(name, description="asks")

    async def on_messages(self, messages, token):
        return Response(TextMessage(content=input("well? "), source=self.name))

team = RoundRobinGroupChat([Asker("a"), AssistantAgent("b", client)], max_turns=2)

# Magentic-One: a:llm MagenticOneOrchestrator:llm (>MagenticOneOrchestrator MagenticOneOrchestrator?a a>MagenticOneOrchestrator MagenticOneOrchestrator?)
from autogen_agentchat.teams import MagenticOneGroupChat as Magentic
team = Magentic([AssistantAgent("a", client)], client)

# code that a person approves: a:tool+code_executor! (>a a>)
def approve(request):
    return ApprovalResponse(approved=input("run? ") == "y", reason="")
agent = CodeExecutorAgent("a", code_executor=executor, approval_func=approve)
"""

CASES = sections(STYLES)


@pytest.mark.parametrize("name", CASES)
def test_a_program_in_some_style_gives_its_graph(write: Write, name: str) -> None:
    """The source alone determines the graph, in any style of building teams."""
    expected, code = CASES[name]
    graph = graph_of_source(write("program.py", HEAD + code))
    assert sorted(summary(graph).split()) == sorted(expected.split())


def test_nothing_is_imported_or_run(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    """A program that prints, or has a failing import, is read without loading any module."""
    path = write("program.py", "import no_such_module\nprint('ran')\n" + HEAD + CASES["by a class"][1])
    before = set(sys.modules)
    graph_of_source(path)
    assert capfd.readouterr().out == ""
    assert not {name for name in set(sys.modules) - before if not name.startswith("guardagent")}


def test_unknown_tools_widen_the_node(write: Write) -> None:
    """Tools from other modules, and those of a server, are noted as unknown."""
    code = """
    from elsewhere import make_tools
    from autogen_ext.tools.mcp import McpWorkbench
    async def main():
        async with McpWorkbench(params) as mcp:
            a = AssistantAgent("a", client, tools=make_tools())
            b = AssistantAgent("b", client, workbench=mcp)
            await RoundRobinGroupChat([a, b], max_turns=2).run(task="x")
    asyncio.run(main())
    """
    graph = graph_of_source(write("program.py", HEAD + code.replace("\n    ", "\n")))
    assert all(graph.by_id[name].metadata["widened"] for name in "ab")
    assert "b: may call tools that cannot be seen: its tools come from a McpWorkbench" in graph.notes


def test_unknown_participants_widen_the_team(write: Write) -> None:
    """If participants are unknown, anyone may follow anyone, with a note."""
    code = """
    from elsewhere import experts
    team = RoundRobinGroupChat([AssistantAgent("a", client), *experts()], max_turns=4)
    """
    graph = graph_of_source(write("program.py", HEAD + code.replace("\n    ", "\n")))
    others = {node.id for node in graph.nodes if node.metadata.get("widened")}
    assert "a" in others
    assert len(others) == 2
    assert any("participants or their order are unknown" in note for note in graph.notes)


def test_an_unknown_condition_may_stop_the_team(write: Write) -> None:
    """A team with a termination condition from another module can end after any turn."""
    code = """
    from elsewhere import condition
    team = RoundRobinGroupChat([AssistantAgent("a", client), AssistantAgent("b", client)], termination_condition=condition)
    """
    graph = graph_of_source(write("program.py", HEAD + code.replace("\n    ", "\n")))
    assert {edge.source for edge in graph.edges if edge.target == "__end__"} == {"a", "b"}


def test_a_team_that_is_only_passed_on_is_found(write: Write) -> None:
    """A team given to code that was not read is the program's workflow; no method of AutoGen adds participants."""
    code = """
    import web
    @web.on_start
    async def start():
        team = RoundRobinGroupChat([AssistantAgent("a", client), UserProxyAgent("b")], max_turns=4)
        web.session.set("team", team)
    """
    graph = graph_of_source(write("program.py", HEAD + code.replace("\n    ", "\n")))
    assert {node.id for node in graph.nodes} == {"__start__", "a", "b", "__end__"}


def test_a_factory_that_another_function_calls_is_no_workflow(write: Write) -> None:
    """Its agents are part of the workflow of its caller, though the file calls neither."""
    code = """
    def one(name): return AssistantAgent(name, client)
    def build(names): return RoundRobinGroupChat([one("a"), one(names[0])], max_turns=4)
    """
    path = write("program.py", HEAD + code.replace("\n    ", "\n"))
    assert [workflow.name for workflow in graphs_of_source(path).workflows] == ["build"]


def test_conditional_participants_are_all_included(write: Write) -> None:
    """If a condition decides on participants, all are in the graph, in any order."""
    code = """
    import os
    agents = [AssistantAgent("a", client)]
    if os.environ.get("MORE"):
        agents = [AssistantAgent("b", client), AssistantAgent("c", client)]
    team = RoundRobinGroupChat(agents, max_turns=4)
    """
    graph = graph_of_source(write("program.py", HEAD + code.replace("\n    ", "\n")))
    edges = {(edge.source, edge.target) for edge in graph.edges}
    assert {("__start__", "a"), ("__start__", "b"), ("a", "a"), ("b", "c"), ("c", "b"), ("c", "__end__")} <= edges


def test_an_agent_has_the_location_of_its_constructor(write: Write) -> None:
    """File and line are those of the constructor call."""
    path = write("program.py", HEAD + CASES["an agent as a tool"][1])
    node = graph_of_source(path).by_id["b"]
    assert node.metadata["file"] == str(path)
    assert path.read_text().splitlines()[node.metadata["line"] - 1].startswith("b = AssistantAgent(")


TELLS_MORE = {"selector_that_cannot_be_known": "the object holds an iterator, the source what it goes over"}


@pytest.mark.filterwarnings("ignore:No approval function")
def test_source_and_object_give_the_same_graph() -> None:
    """Both agree on every program of the tests, except where the source determines more."""
    agree(*sorted(PROGRAMS.glob("autogen_*.py")))


def test_source_and_object_agree_on_the_reference_programs(shared: Path) -> None:
    """Both agree on the reference programs."""
    agree(shared / "workflows" / "programs" / "autogen_programs.py")


def agree(*paths: Path) -> None:
    pytest.importorskip("autogen_agentchat", reason="AutoGen AgentChat is not installed")
    pytest.importorskip("autogen_ext", reason="AutoGen's extensions are not installed")
    from guardagent.workflow.extraction import extract

    for path in paths:
        for name, (build, _) in load(path).CASES.items():
            of_object, of_source = extract(build(), name), graph_of_source(path, build.__name__)
            if name in TELLS_MORE:
                assert shape(of_source)["edges"] <= shape(of_object)["edges"], name
                continue
            assert shape(of_source) == shape(of_object), name
            assert {edge.condition for edge in of_source.edges} == {edge.condition for edge in of_object.edges}, name
