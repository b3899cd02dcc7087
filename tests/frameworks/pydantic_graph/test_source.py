"""Programs of Pydantic AI and pydantic-graph read from their source alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent.errors import InputError
from guardagent.workflow.python_source.source_graphs import graph_of_source, graphs_of_source
from tests.frameworks.langgraph.test_source import sections, summary
from tests.frameworks.program_files import PROGRAMS, conditions, load, shape

Write = Callable[..., Path]

HEAD = """
from __future__ import annotations
import os
from dataclasses import dataclass
from typing import Annotated, Union
from pydantic_ai import Agent, RunContext, Tool
from pydantic_ai.toolsets import FunctionToolset
from pydantic_graph import BaseNode, Edge, End, Graph, GraphRunContext
from elsewhere import far, FarNode

def fetch(url: str) -> str: return url
def mail(to: str) -> str: return to
"""

STYLES = """
# named after its variable: support:tool+fetch+post! (>support support>)
support = Agent("model", tools=[fetch])

@support.tool(name="post", requires_approval=True)
async def mail_(ctx: RunContext, to: str) -> str: return to

# made inside what runs it: helper:tool+fetch (>helper helper>)
def main():
    helper = Agent("model", tools=[Tool(fetch, takes_ctx=False)])
    helper.run_sync("x")

# by a factory: writer:tool+mail (>writer writer>)
def make(name, *tools):
    return Agent("model", name=name, tools=list(tools))

agent = make("writer", mail)

# one that delegates: boss:tool+ask worker:tool+fetch (>boss boss?worker worker>boss boss?)
worker = Agent("model", tools=[fetch])
boss = Agent[None, str]("model", output_type=str | int)

@boss.tool_plain
async def ask(question: str) -> str:
    return (await worker.run(question)).output

# tools that are defined elsewhere: a:tool+far+far.*+pages.* (>a a>)
from pydantic_ai.mcp import MCPServerStdio
a = Agent("model", name="a", tools=[far], toolsets=[MCPServerStdio("npx", id="pages")])

# of the provider and ready-made: a:tool+duckduckgo_search+web_search (>a a>)
from pydantic_ai import WebSearchTool
from pydantic_ai.common_tools.duckduckgo import duckduckgo_search_tool
a = Agent("model", name="a", tools=[duckduckgo_search_tool()], builtin_tools=[WebSearchTool()])

# capabilities: a:tool+fetch+Memory.*+web_search (>a a>)
from pydantic_ai.capabilities import Memory, Thinking, WebSearch
a = Agent("model", name="a", tools=[fetch], capabilities=[Thinking(), WebSearch(), Memory()])

# a toolset that grows later: a:tool+fetch!+look! (>a a>)
more = FunctionToolset([fetch], requires_approval=True)
a = Agent("model", name="a", toolsets=[more])

@more.tool
def look(path: str) -> str: return path

# a toolset with names that are changed: a:tool+web_fetch+web_send! (>a a>)
some = FunctionToolset(tools=[fetch]).prefixed("web")
asked = FunctionToolset([mail]).renamed({"send": "mail"}).approval_required().prefixed("web")
a = Agent("model", name="a", toolsets=[some, asked])

# around another agent: a:tool+fetch (>a a>)
from pydantic_ai.durable_exec.temporal import TemporalAgent
agent = TemporalAgent(Agent("model", name="a", tools=[fetch]))

# wrapped functions as tools: a:tool+fetch+mail (>a a>)
from functools import wraps
def safe(function):
    @wraps(function)
    def wrapper(*arguments): return function(*arguments)
    return wrapper

a = Agent("model", name="a", tools=[safe(fetch), safe(mail)])

# classes of nodes: First:passthrough Choose:router Last:passthrough (>First First>Choose Choose?First Choose?Last Choose?) Last>)
@dataclass
class First(BaseNode[dict]):
    async def run(self, ctx: GraphRunContext[dict]) -> Choose: return Choose()

@dataclass
class Choose(BaseNode):
    async def run(self, ctx) -> Union[First, "Last"] | Annotated[End[int], Edge(label="over")]:
        return ctx.state.following

class Last(BaseNode):
    async def run(self, ctx) -> End[None]: return End(None)

graph = Graph(nodes=(First, Choose, Last), state_type=dict)
if __name__ == "__main__":
    graph.run_sync(First(), state={})

# a node that runs an agent: Write:tool+mail Read:passthrough (>Write Write>Read Read>)
WRITER = Agent("model", tools=[mail])

@dataclass
class Write(BaseNode):
    async def run(self, ctx) -> "Read":
        return Read((await WRITER.run("x")).output)

@dataclass
class Read(BaseNode):
    text: str
    async def run(self, ctx) -> End[str]: return End(self.text)

graph = Graph(nodes=[Write, Read])

# a node that is defined elsewhere: Own:router FarNode:tool+FarNode.* (?Own (?FarNode Own?FarNode Own?) FarNode?Own FarNode?FarNode FarNode?)
class Own(BaseNode):
    async def run(self, ctx) -> FarNode | End[int]: return FarNode()

graph = Graph(nodes=[Own, FarNode])
"""

CASES = sections(STYLES)


@pytest.mark.parametrize("name", CASES)
def test_a_program_in_some_style_gives_its_graph(write: Write, name: str) -> None:
    """The source alone determines the graph, in any style of building agents and graphs."""
    expected, code = CASES[name]
    assert sorted(summary(graph_of_source(write("program.py", HEAD + code))).split()) == sorted(expected.split())


def test_agents_that_run_after_each_other_are_separate_workflows(write: Write) -> None:
    """A function that runs several agents is ordinary code, whose order belongs to no graph."""
    code = 'a, b = Agent("m", name="a"), Agent("m", name="b")\nasync def main():\n    await a.run("x")\n    await b.run("y")\n'
    workflows = graphs_of_source(write("program.py", HEAD + code)).workflows
    assert [summary(workflow.graph) for workflow in workflows] == ["a:llm (>a a>)", "b:llm (>b b>)"]


def test_agents_of_other_files_are_read(write: Write) -> None:
    """Agents and tools of a neighbouring package are followed."""
    write("team/__init__.py", "")
    write(
        "team/agents.py", 'from pydantic_ai import Agent\nfrom .tools import send\nhelper = Agent("m", tools=[send])\n'
    )
    write("team/tools.py", "def send(to: str): return input('ok?')\n")
    path = write("program.py", "from team.agents import helper\nasync def main(): await helper.run('x')\n")
    assert summary(graph_of_source(path)) == "helper:tool+send! (>helper helper>)"


def test_an_agent_made_in_a_tool_is_marked(write: Write) -> None:
    """The agent that a tool makes and runs can call anything."""
    code = """
a = Agent("m", name="a")
@a.tool_plain
async def ask(question: str) -> str:
    return (await Agent("m", tools=[mail]).run(question)).output
"""
    node = graph_of_source(write("program.py", HEAD + code)).by_id["a"]
    assert node.tools == ("ask.*", "ask")
    assert node.metadata["tools_unknown"]


def test_edges_that_are_not_determined_are_refused(write: Write) -> None:
    """A builder with an unknown edge is refused with the line of that edge."""
    code = """
from pydantic_graph.graph_builder import GraphBuilder
g = GraphBuilder()
@g.step
async def one(ctx): return 1
g.add(g.edge_from(g.start_node).to(one), far(g, one))
graph = g.build()
"""
    with pytest.raises(InputError, match=r"line 18: the source does not determine an edge"):
        graph_of_source(write("program.py", HEAD + code))


def test_source_and_object_give_the_same_graph() -> None:
    """Both agree on every program of the tests, including edge conditions."""
    pytest.importorskip("pydantic_graph.graph_builder", reason="pydantic-graph is not installed")
    pytest.importorskip("pydantic_ai", reason="Pydantic AI is not installed")
    from guardagent.workflow.extraction import extract

    for path in sorted(PROGRAMS.glob("pydantic_graph_*.py")):
        for name, (build, _) in load(path).CASES.items():
            of_object, of_source = extract(build(), name), graph_of_source(path, build.__name__)
            assert shape(of_source) == shape(of_object), name
            assert conditions(of_source) == conditions(of_object), name
