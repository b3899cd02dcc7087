"""Programs of Google ADK read from their source alone."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.workflow.python_source.source_graphs import graph_of_source, graphs_of_source
from tests.frameworks.langgraph.test_source import sections, summary
from tests.frameworks.program_files import PROGRAMS, conditions, load, shape

Write = Callable[..., Path]

HEAD = """
import os
from google.adk.agents import BaseAgent, LlmAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.events import Event, EventActions, RequestInput
from google.adk.tools import AgentTool, FunctionTool, ToolContext, agent_tool, exit_loop, google_search
from google.adk.workflow import START, Workflow, node
from elsewhere import far, strange_agent

def mail(to: str) -> str:
    return to
"""

STYLES = """
# a pipeline: a:llm b:tool+mail! (>a a>b b>)
from google.adk import Agent
a = Agent(name="a", model="m")
root_agent = SequentialAgent(name="row", sub_agents=[a, Agent(name="b", tools=[FunctionTool(mail, require_confirmation=True)])])

# agents that are made in a try, and None before: team:llm a:llm b:llm (>team team?a team?b a?team a?b b?team b?a team?) a?) b?)
a = b = None
try:
    a = LlmAgent(name="a")
except Exception as error:
    print(error)
try:
    b = LlmAgent(name="b")
except Exception as error:
    print(error)
if a and b:
    root_agent = LlmAgent(name="team", sub_agents=[a, b])

# names in another order: y:llm x:llm a:llm b:llm (>y y>x x>a a>b b>)
known = {"b": 1, "a": 2}
names = [*reversed(["x", "y"]), *sorted(known)]
root_agent = SequentialAgent(name="row", sub_agents=[LlmAgent(name=name) for name in names])

# a class of VeADK, which derives from ADK's: row:llm a:tool+mail (>row row?a a?row row?) a?)
from veadk import Agent, Runner
a = Agent(name="a", tools=[mail])
runner = Runner(agent=Agent(name="row", sub_agents=[a]))

# a decorator of the tools' package that is not known: a:tool+look (>a a>)
from google.adk.tools import marked
@marked
def look(to: str) -> str:
    return to
root_agent = LlmAgent(name="a", tools=[look])

# a wrapper of an imported function has its name: a:tool+far (>a a>)
import functools
def timed(function):
    @functools.wraps(function)
    def wrapper(*values):
        return function(*values)
    return wrapper
root_agent = LlmAgent(name="a", tools=[timed(far)])

# transfers, agents as tools: root:tool+google_search+pipe a:llm b:tool+mail (>root root?a a?root root?b b>root root?) a?)
helper = SequentialAgent(name="pipe", sub_agents=[LlmAgent(name="b", tools=[mail])])
root_agent = LlmAgent(
    name="root", sub_agents=[LlmAgent(name="a")], tools=[google_search, agent_tool.AgentTool(agent=helper)]
)

# a loop with a checker: write:llm Check:router (>write write>Check Check?write Check?)
class Check(BaseAgent):
    name: str = "Check"

    async def _run_async_impl(self, context):
        done = context.session.state.get("status") == "ok"
        if done:
            yield Event(author=self.name, actions=EventActions(escalate=True))
        else:
            yield Event(author=self.name)

root_agent = LoopAgent(name="l", max_iterations=int(os.getenv("N", "3")), sub_agents=[LlmAgent(name="write"), Check()])

# a loop over names, side by side: w0:llm w1:llm end:tool+exit_loop (*w0 (*w1 w0>end w1>end end>)
workers = []
for place in range(2):
    workers.append(LlmAgent(name=f"w{place}"))
both = ParallelAgent(name="both", sub_agents=workers)
root_agent = SequentialAgent(name="all", sub_agents=[both, LlmAgent(name="end", tools=[exit_loop])])

# a step that may be left out: a:llm b:llm c:llm (>a a>c a?b b?c c>)
steps = [LlmAgent(name="a")]
if os.getenv("REVIEW"):
    steps.append(LlmAgent(name="b"))
steps.append(LlmAgent(name="c"))
root_agent = SequentialAgent(name="all", sub_agents=steps)

# one of two: a:llm b:llm c:llm (?a (?b a?c b?c c>)
first = LlmAgent(name="a") if os.getenv("A") else LlmAgent(name="b")
root_agent = SequentialAgent(name="all", sub_agents=[first, LlmAgent(name="c")])

# an order that is not known: a:llm b:llm (?a (?b a?a a?b b?a b?b a?) b?) (>)
chosen = {LlmAgent(name="a"), LlmAgent(name="b")}
root_agent = SequentialAgent(name="all", sub_agents=[one for one in chosen if far(one)])

# an agent of its own code: story:passthrough w:llm c:llm (>story story>w w?c w?) w>) c?w c?)
class Story(BaseAgent):
    writer: LlmAgent
    critic: LlmAgent

    def __init__(self, name, writer, critic):
        super().__init__(name=name, writer=writer, critic=critic, sub_agents=[writer, critic])

    async def _run_async_impl(self, ctx):
        async for event in self.writer.run_async(ctx):
            yield event
        if ctx.session.state["bad"]:
            async for event in self.critic.run_async(ctx):
                yield event
            if ctx.session.state["again"]:
                async for event in self.writer.run_async(ctx):
                    yield event
                return

root_agent = Story("story", LlmAgent(name="w"), LlmAgent(name="c"))

# a workflow: grade:router approve:human fix:passthrough (>grade grade?approve grade?fix approve>) fix>grade
def grade(node_input: str):
    return Event(route="good" if node_input else "bad")

def approve(node_input: str):
    yield RequestInput(message="ok?")

@node(name="fix")
def mend(node_input: str):
    return node_input

flow = Workflow(name="flow", edges=[(START, grade, {"good": approve, "bad": mend}), (mend, grade)])

# agents of modules that are missing: desk:llm a:tool+a.* b:tool+b.* (>desk desk?a desk?b a?desk b?desk a?b b?a desk?) a>) a?) b>) b?)
from .sub_agents.one import a
from .sub_agents.two import b
root_agent = LlmAgent(name="desk", sub_agents=[a, b])

# agents that a table enables: desk:llm a:llm c:llm (>desk desk?a desk?c a?desk a?c c?desk c?a desk?) a?) c?)
ENABLED = {"a": True, "b": False, "c": True}
MADE = {name: LlmAgent(name=name) for name in ENABLED}
root_agent = LlmAgent(name="desk", sub_agents=[MADE[name] for name, on in ENABLED.items() if on and not name == "b"])

# an agent of each member of an enumeration, and one that may be missing: a:llm b:llm c:llm (>a a?b a>c b?c c>)
from enum import Enum
class Kind(str, Enum):
    A = "a"
    C = "c"
first, last = [LlmAgent(name=kind.value) for kind in Kind]
root_agent = SequentialAgent(name="row", sub_agents=[first, *([LlmAgent(name="b")] if os.getenv("B") else []), last])

# an agent that may fail: plan:passthrough a:llm b:llm (>plan plan>a a>b a?b b>) b?)
class Plan(BaseAgent):
    async def _run_async_impl(self, ctx):
        for agent in self.sub_agents:
            try:
                async for event in agent.run_async(ctx):
                    yield event
            except Exception as error:
                print(error)
root_agent = Plan(name="plan", sub_agents=[LlmAgent(name="a"), LlmAgent(name="b")])

# made and run in a function: a:llm (>a a>)
from google.adk.runners import InMemoryRunner
async def main():
    runner = InMemoryRunner(agent=LlmAgent(name="a"), app_name="x")
    await runner.run_debug("hi")

# an agent of each name, by a factory that waits: boss:llm law_expert:tool+mail tax_expert:tool+mail (>boss boss?law_expert boss?tax_expert law_expert?boss law_expert?tax_expert tax_expert?boss tax_expert?law_expert boss?) law_expert?) tax_expert?)
import asyncio
async def expert(topic, tools):
    made = LlmAgent(name=f"{topic}_expert", tools=tools)
    return made, far()
async def team():
    experts = {topic: (await expert(topic, [mail]))[0] for topic in ("law", "tax")}
    return LlmAgent(name="boss", sub_agents=list(experts.values()))
root_agent = asyncio.run(team())

# names that are not known: planner:llm doer:tool+go (>planner planner>doer doer>)
class Desk:
    def __init__(self, settings):
        self.planner = LlmAgent(name=settings.planner)
        self.doer = LlmAgent(name=settings["doer"], tools=[self.go])
        self.root = SequentialAgent(name=settings.root, sub_agents=[self.planner, self.doer])
    def go(self): pass

# tools that a caller may pass: helper:tool+mail+tools.* (>helper helper>)
def build(tools=None):
    tools = tools or []
    return LlmAgent(name="helper", tools=[mail, *tools])

# anything that a caller may pass: helper:tool+tools.* (>helper helper?)
def build(name, **options):
    return LlmAgent(name="helper", **options)

# a guard against a missing framework: a:tool+google_search b:llm (>a a>b b>)
try:
    from google.adk.agents import Agent, SequentialAgent as Row
except ImportError:
    Row = None
    class Agent:
        def __init__(self, **options): self.options = options
root_agent = Row(name="row", sub_agents=[Agent(name="a", tools=[google_search]), Agent(name="b")])

# tools of other frameworks: a:tool+Finder+news+corpus+vertex_ai_search+code_executor (>a a>)
from google.adk.code_executors import BuiltInCodeExecutor
from google.adk.tools import VertexAiSearchTool
from google.adk.tools.crewai_tool import CrewaiTool
from google.adk.tools.langchain_tool import LangchainTool
from google.adk.tools.retrieval import FilesRetrieval
from elsewhere.finders import Finder
adapted = [LangchainTool(tool=Finder(most=3)), CrewaiTool(name="news", description="d", tool=Finder())]
corpus = FilesRetrieval(name="corpus", description="d", input_dir="d")
root_agent = LlmAgent(name="a", tools=[*adapted, corpus, VertexAiSearchTool(data_store_id="d")], code_executor=BuiltInCodeExecutor())

# tools of a server and the stack that closes it: files:tool+read+write boss:llm shop:tool+MCPToolset.* (>boss boss?files boss?shop files?boss files?shop shop?boss shop?files boss?) files?) shop?)
from google.adk.tools.mcp_tool.mcp_toolset import MCPToolset
async def create_agent():
    some, stack = await MCPToolset.from_server(connection_params=far(), async_exit_stack=far())
    files = LlmAgent(name="files", tools=[MCPToolset(connection_params=far(), tool_filter=["read", "write"])])
    return LlmAgent(name="boss", sub_agents=[files, LlmAgent(name="shop", tools=some)]), stack

# a class that declares its parts anew: boss:llm z:llm (>boss boss?z z?boss boss?) z?)
class Boss(LlmAgent):
    name: str = "boss"
    sub_agents: list[BaseAgent] = far(default_factory=list)
root_agent = Boss(sub_agents=[LlmAgent(name="z")])

# a choice by a table: desk:router a:llm b:llm (>desk desk?a desk?b a>) b>)
class Desk(BaseAgent):
    a: LlmAgent
    b: LlmAgent
    def __init__(self, a, b):
        super().__init__(name="desk", a=a, b=b, sub_agents=[a, b])
    async def _run_async_impl(self, ctx):
        table = {"a": self.a, "b": self.b}
        async for event in table.get(ctx.session.state["kind"], self.a).run_async(ctx):
            yield event
root_agent = Desk(LlmAgent(name="a"), LlmAgent(name="b"))

# a choice by a name that is not known: desk:router a:llm b:llm (>desk desk?a desk?b a>) b>)
class Desk(BaseAgent):
    async def _run_async_impl(self, ctx):
        chosen = self.find_sub_agent(ctx.session.state["next"])
        async for event in chosen.run_async(ctx):
            yield event
root_agent = Desk(name="desk", sub_agents=[LlmAgent(name="a"), LlmAgent(name="b")])

# tools behind a wrapper: a:tool+mail+fetch (>a a>)
from functools import wraps
def logged(function):
    @wraps(function)
    def wrapper(*args): return function(*args)
    return wrapper
@logged
def fetch(url): return url
root_agent = LlmAgent(name="a", tools=[*map(logged, [mail]), fetch])

# an agent that a file describes: root_agent:tool+tools.* (>root_agent root_agent?)
from google.adk.agents import config_agent_utils
root_agent = config_agent_utils.from_config("root_agent.yaml")

# what is defined elsewhere: a:tool+far+far.*+FooToolset.* (>a a>)
from google.adk.tools.foo import FooToolset
root_agent = LlmAgent(name="a", tools=[far, FooToolset(url="x")])
"""

CASES = sections(STYLES)


@pytest.mark.parametrize("name", CASES)
def test_a_program_in_some_style_gives_its_graph(write: Write, name: str) -> None:
    """The source alone determines the graph, in any style of building agents."""
    expected, code = CASES[name]
    assert sorted(summary(graph_of_source(write("program.py", HEAD + code))).split()) == sorted(expected.split())


PARTS = """
from functools import partial
make = partial(LlmAgent, model="m")

def registry():
    return {"a": make(name="a"), "b": make(name="b", tools=[mail])}

class Team:
    def __init__(self, agents):
        self.root = LlmAgent(name="root", sub_agents=list(agents.values()))

team = Team(registry())
root_agent = team.root
"""


def test_parts_are_no_workflows_of_their_own(write: Write) -> None:
    """Neither a partial class, nor what a function or a class makes once more of what the script has built."""
    (only,) = graphs_of_source(write("program.py", HEAD + PARTS)).workflows
    assert {node.label for node in only.graph.nodes} >= {"root", "a", "b"}


def test_the_framework_is_not_imported(write: Write) -> None:
    """Nothing of the program is imported or run."""
    before = set(sys.modules)
    graph_of_source(write("program.py", HEAD + CASES["a workflow"][1] + "\nraise SystemExit\n"))
    assert not [name for name in set(sys.modules) - before if name.startswith("google")]


def test_an_unknown_agent_can_do_anything(write: Write) -> None:
    """It can call any tool, end the enclosing loop, and transfer; its node is widened, with a note."""
    loop = 'l = LoopAgent(name="l", sub_agents=[LlmAgent(name="a"), strange_agent])\n'
    path = write("program.py", f'{HEAD}{loop}root_agent = LlmAgent(name="r", sub_agents=[strange_agent, l])\n')
    assert summary(graph_of_source(path, "l")) == (
        "a:llm strange_agent:tool+strange_agent.* (>a a>strange_agent strange_agent@a strange_agent?)"
    )
    graph = graph_of_source(path)
    assert {("r", "strange_agent"), ("strange_agent", "r")} <= {(edge.source, edge.target) for edge in graph.edges}
    assert graph.by_id["strange_agent"].metadata["widened"]
    assert any("the agent is unknown" in note for note in graph.notes)


def test_a_workflow_with_unknown_edges_is_widened(write: Write) -> None:
    """Every node can follow every other node, and an unknown one."""
    code = 'def one(x): pass\ndef two(x): pass\nw = Workflow(name="w", edges=[(START, one, two), *far()])\n'
    graph = graph_of_source(write("program.py", HEAD + code))
    pairs = {(edge.source, edge.target) for edge in graph.edges}
    assert {("two", "one"), ("two", "unknown"), ("unknown", "one"), ("one", "one")} <= pairs
    assert any("the source does not determine all edges of 'w'" in note for note in graph.notes)


def test_invalid_programs_are_refused_or_read(write: Write) -> None:
    """Recursive agents, wrong types and missing names cause at worst an error message."""
    code = """
    a = LlmAgent()
    l = LoopAgent(name="l", sub_agents=[a, 3, None, "x"], max_iterations="3")
    l.sub_agents.append(l)
    a.sub_agents.append(l)
    a.tools = [AgentTool(), FunctionTool(3), 5, None, [a], a]
    w = Workflow(name="w", edges=[(START, mail, {"a": (mail, a), 3: far}), 3, [a, mail], (mail,), (START, far(), mail)])
    class Cyclic(Cyclic): pass
    class Own(BaseAgent):
        async def _run_async_impl(self, ctx):
            async for event in self.nobody.run_async(ctx): yield event
    o = Own(sub_agents=[w, l, Cyclic()])
    """
    path = write("program.py", HEAD + textwrap.dedent(code))
    for name in "alwo":
        try:
            graph_of_source(path, name)
        except InputError as error:
            assert str(path) in str(error) or "google-adk" in str(error)  # noqa: PT017 - it need not be refused


NOT_IN_THE_SOURCE = {
    "code_without_source": "its class is made by exec",
    "tools_of_a_specification": "its tools are made of a specification when the set of tools is made",
}


def programs(shared: Path) -> Iterator[tuple[Path, str, Callable[[], Any]]]:
    """The programs of the tests, and the reference programs."""
    beside = shared / "workflows" / "programs" / "adk_programs.py"
    for path in [*sorted(PROGRAMS.glob("adk_*.py")), beside]:
        yield from ((path, name, build) for name, (build, _) in load(path).CASES.items())


@pytest.mark.filterwarnings("ignore")
def test_source_and_object_give_the_same_graph(shared: Path) -> None:
    """Both agree on every program whose source determines the graph, including edge conditions."""
    pytest.importorskip("google.adk", reason="Google ADK is not installed")
    from guardagent.workflow.extraction import extract

    for path, name, build in programs(shared):
        if name not in NOT_IN_THE_SOURCE:
            of_object, of_source = extract(build(), name), graph_of_source(path, build.__name__)
            assert shape(of_source) == shape(of_object), name
            assert conditions(of_source) == conditions(of_object), name


@pytest.mark.filterwarnings("ignore")
def test_values_that_the_source_does_not_determine_are_unknown() -> None:
    """A toolset built from a specification has unknown tools; a class built by exec is not found."""
    pytest.importorskip("google.adk", reason="Google ADK is not installed")
    graph = graph_of_source(PROGRAMS / "adk_toolboxes.py", "tools_of_a_specification")
    assert graph.by_id["a"].tools == ("OpenAPIToolset.*",)
    assert graph.by_id["a"].metadata["widened"]
    with pytest.raises(InputError, match="unknown workflow 'code_without_source'"):
        graph_of_source(PROGRAMS / "adk_custom.py", "code_without_source")
