"""Programs of the OpenAI Agents SDK read from their source alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent.errors import InputError
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.frameworks.langgraph.test_source import sections, summary
from tests.frameworks.program_files import PROGRAMS, conditions, load, shape

Write = Callable[..., Path]

HEAD = """
import os
from agents import Agent, Runner, function_tool, handoff
from elsewhere import far, strange_agent

@function_tool
def fetch(url: str) -> str:
    return url

@function_tool(name_override="post", needs_approval=True)
def mail(to: str) -> str:
    return to
"""

STYLES = """
# with a guard: a:tool+fetch (>a a>)
from guardagent.frameworks.openai_agents import guarded
agent = guarded(Agent(name="a", tools=[fetch]), conversation=far)

# agents that hand off both ways: desk:llm seat:tool+fetch (>desk desk?seat desk?) seat?desk seat?)
from agents.extensions.handoff_prompt import RECOMMENDED_PROMPT_PREFIX
desk = Agent(name="desk")
seat = Agent[dict](name="seat", instructions=f"{RECOMMENDED_PROMPT_PREFIX} seats", tools=[fetch])
desk.handoffs.append(handoff(agent=seat, on_handoff=lambda context: None))
seat.handoffs = [*seat.handoffs, desk]
async def main():
    await Runner.run(desk, "x")
if __name__ == "__main__":
    import asyncio
    asyncio.run(main())

# with decorated functions: a:tool+look!+find (>a a>)
from agents.decorators import tool
from elsewhere import measured
@tool(needs_approval=True)
def look(url: str) -> str: return url
@measured(times=3)
def find(url: str) -> str: return url
a = Agent(name="a", tools=[look, find])

# made inside what runs it: a:tool+post!+use_b b:tool+fetch (>a a?b b>a a?)
async def main():
    b = Agent(name="b", tools=[fetch])
    a = Agent(name="a", tools=[mail])
    a.tools.append(b.as_tool("use_b", "uses"))
    await Runner.run(starting_agent=a, input="x")

# by a class: boss:tool+post! french:llm spanish:llm (>boss boss?french boss?spanish boss?) french>) spanish>)
class Team:
    def __init__(self, languages=("french", "spanish")):
        self.pool = {name: self.one(name) for name in languages}
        self.boss = Agent(name="boss", tools=[mail], handoffs=list(self.pool.values()))

    def one(self, name):
        return Agent(name=name, instructions=f"speak {name}")

# by a class that comes from the framework's: a:tool+fetch b:tool+fetch (>a a?b a?) b>)
class Reader(Agent):
    def __init__(self, name, **more):
        super().__init__(name=name, tools=[fetch], **more)

agent = Reader("a", handoffs=[Reader("b")])

# with a list that grows elsewhere: a:tool+one+two (>a a>)
TOOLS = []
def register(function):
    TOOLS.append(function_tool(function))
    return function

@register
def one(x: str): pass

agent = Agent(name="a", tools=TOOLS)

@register
def two(x: str): pass

# under a condition: a:tool+fetch+post! b:llm (>a a?b a?) b>)
agent = Agent(name="a", tools=[fetch])
if os.environ.get("MAIL"):
    agent.tools.append(mail)
    agent.handoffs.insert(0, Agent(name="b"))

# kept by name in an object: boss:tool+fetch help:tool+post! (>boss boss?help boss?) help>)
class Pool:
    def __init__(self): self.all = {}
    def make(self, name, *tools):
        self.all[name] = Agent(name=name, tools=list(tools))
        return self.all[name]

pool = Pool()
boss = pool.make("boss", fetch)
boss.handoffs.append(pool.make("help", mail))

# tools that are wrapped: a:tool+read+look (>a a>)
from functools import wraps
def safe(function):
    @wraps(function)
    def wrapper(*arguments): return function(*arguments)
    return wrapper

@function_tool
@safe
def read(path: str) -> str: return path
def look(path: str) -> str: return path
a = Agent(name="a", tools=[read, function_tool(safe(look))])

# a clone of a clone: c:tool+fetch+post! (>c c>)
def variant(agent, name, *more): return agent.clone(name=name, tools=[*agent.tools, *more])
agent = variant(variant(Agent(name="a"), "b", fetch), "c", mail)

# a copy with other tools: b:tool+post! c:llm (>b b?c b?) c>)
a = Agent(name="a", tools=[fetch], handoffs=[Agent(name="c")])
agent = a.clone(name="b", tools=[mail])

# tools that are defined elsewhere: a:tool+far+far.*+b.* (>a a>)
from agents.mcp import MCPServerSse
agent = Agent(name="a", tools=[far], mcp_servers=[MCPServerSse(name="b", params={"url": "x"})])

# a tool that runs an agent: a:tool+ask inner:tool+fetch (>a a?inner inner>a a?)
inner = Agent(name="inner", tools=[fetch])
@function_tool
async def ask(question: str) -> str:
    return (await Runner.run(inner, question)).final_output

agent = Agent(name="a", tools=[ask])

# servers with and without a list: a:tool+read+pages.* (>a a>)
from agents.mcp import MCPServerStdio
pages = MCPServerStdio(name="pages", params={}, tool_filter={"allowed_tool_names": ["read", os.environ["TOOL"]]})
async def main():
    async with pages as server:
        return Agent(name="a", mcp_servers=[server])

# with all names of the framework: a:tool+web_search b:llm (>a a?b a?) b>)
from agents import *
agent = Agent(name="a", tools=[WebSearchTool()], handoffs=[handoff(Agent(name="b"))])

# as many as a file says: a:llm line_16:llm (>a a?line_16 a?) line_16>)
import json
agent = Agent(name="a")
for entry in json.load(open("agents.json")):
    agent.handoffs.append(Agent(name=entry["name"]))
"""

CASES = sections(STYLES)


@pytest.mark.parametrize("name", CASES)
def test_a_program_in_some_style_gives_its_graph(write: Write, name: str) -> None:
    """The source alone determines the graph, in any style of building agents."""
    expected, code = CASES[name]
    graph = summary(graph_of_source(write("program.py", HEAD + code))).replace("line 16", "line_16")
    assert sorted(graph.split()) == sorted(expected.split())


def test_the_framework_is_not_imported(write: Write) -> None:
    """Nothing of the program is imported or run, but its locations are known."""
    before = set(sys.modules)
    graph = graph_of_source(write("program.py", HEAD + CASES["a copy with other tools"][1] + "\nraise SystemExit\n"))
    assert not [name for name in set(sys.modules) - before if name.partition(".")[0] == "agents"]
    metadata = graph.by_id["b"].metadata
    assert Path(metadata["file"]).name == "program.py"
    assert "a.clone(name=" in Path(metadata["file"]).read_text(encoding="utf-8").splitlines()[metadata["line"] - 1]


def test_helpers_in_other_files_are_read(write: Write) -> None:
    """Agents of a neighbouring package are read, including relative imports."""
    write("team/__init__.py", "from .writer import writer\n")
    write("team/tools.py", "from agents import function_tool\n@function_tool\ndef send(x: str): return input('ok?')\n")
    write(
        "team/writer.py",
        "from agents import Agent\nfrom . import tools\nwriter = Agent('writer', tools=[tools.send])\n",
    )
    path = write("program.py", "from agents import Agent\nfrom team import writer\na = Agent('a', handoffs=[writer])\n")
    assert summary(graph_of_source(path)) == "a:llm writer:tool+send! (>a a?writer a?) writer>)"
    path = write("other.py", "import team.tools\nimport agents as sdk\na = sdk.Agent('a', tools=[team.tools.send])\n")
    assert summary(graph_of_source(path)) == "a:tool+send! (>a a>)"
    assert summary(graph_of_source(write("third.py", "from team import writer as module\nimport team\n")))
    assert summary(graph_of_source(write("fourth.py", "import team\n"))) == "writer:tool+send! (>writer writer>)"


def test_unknown_hand_off_targets_are_assumed(write: Write) -> None:
    """An imported agent could be any, call any tool and hand off to any, with notes."""
    graph = graph_of_source(write("program.py", HEAD + 'agent = Agent("a", handoffs=[strange_agent], tools=far())\n'))
    assert {("a", "strange_agent"), ("strange_agent", "a")} <= {(edge.source, edge.target) for edge in graph.edges}
    assert graph.by_id["strange_agent"].tools == ("strange_agent.*",)
    assert graph.by_id["a"].tools == ("far.*",)
    assert all(graph.by_id[name].metadata["widened"] for name in ("a", "strange_agent"))
    assert any("not all tools of a are known from the source" in note for note in graph.notes)


def test_invalid_programs_are_refused_or_read(write: Write) -> None:
    """Missing names, wrong types and endless loops cause at worst an error message."""
    code = """
    a = Agent()
    b = Agent("b", None, 3, tools=[1, None, a, [a]], handoffs=[handoff(), handoff(3), handoff(a, "x")], mcp_servers=[1])
    class Loop(Agent):
        def __init__(self): super().__init__(name="l", tools=self.make())
        def make(self): return [self.as_tool(), *self.make()]
    def deep(x): return Agent(name=x, handoffs=[deep(x + "y")])
    deep("a"), Loop()
    while a: b = b.clone(handoffs=[b])
    for i in range(10**6): a.handoffs.append(Agent(name=f"n{i}"))
    """
    path = write("program.py", HEAD + __import__("textwrap").dedent(code))
    for name in ("a", "b", "deep", "Loop"):
        try:
            graph_of_source(path, name)
        except InputError as error:
            assert str(path) in str(error) or "openai-agents" in str(error)  # noqa: PT017 - the program need not be refused


def test_source_and_object_give_the_same_graph() -> None:
    """Both agree on every program of the tests, including edge conditions."""
    pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed")
    from guardagent.workflow.extraction import extract

    for path in sorted(PROGRAMS.glob("openai_*.py")):
        for name, (build, _) in load(path).CASES.items():
            of_object, of_source = extract(build(), name), graph_of_source(path, build.__name__)
            assert shape(of_source) == shape(of_object), name
            assert conditions(of_source) == conditions(of_object), name
