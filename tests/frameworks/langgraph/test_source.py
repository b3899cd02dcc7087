"""LangGraph programs read from their source alone."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.workflow.model.graph import END, START, Graph
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.frameworks.program_files import PROGRAMS, load

Write = Callable[..., Path]

HEAD = """
import operator
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypedDict
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Send, interrupt

class State(TypedDict, total=False):
    text: str

def step(state):
    return {"text": "done"}

@tool
def mail(to: str) -> str:
    "Sends."
    return ""
"""

SHORT = {">": "direct", "?": "conditional", "*": "parallel", "@": "loop"}


def summary(graph: Graph) -> str:
    """A graph in one line: its nodes with kinds and tools, and its edges."""
    marks = {kind: mark for mark, kind in SHORT.items()}
    nodes = [
        f"{node.id}:{node.kind}" + "".join(f"+{tool}{'!' * (tool in node.gated_tools)}" for tool in node.tools)
        for node in graph.nodes
        if node.id not in {START, END}
    ]
    edges = [f"{edge.source}{marks[edge.kind]}{edge.target}" for edge in graph.edges]
    return " ".join([*nodes, *edges]).replace("__start__", "(").replace("__end__", ")")


STYLES = """
# at the top of the file: a:llm b:llm (>a a>b b>)
g = StateGraph(State)
g.add_node("a", step)
g.add_node("b", step)
g.add_edge(START, "a")
g.add_edge("a", "b")
g.add_edge("b", END)
graph = g.compile()

# of a sequence whose last step answers: a:router b:llm c:llm (>a a?b a?c b>) c>)
class Answer(TypedDict):
    to: Literal["b", "c"]

chain = prompt | llm.with_structured_output(Answer)
g = StateGraph(State)
g.add_node("a", lambda state: Command(goto=chain.invoke(state)["to"]))
for name in ("b", "c"):
    g.add_node(name, step)
    g.add_edge(name, END)
g.add_edge(START, "a")
graph = g.compile()

# of a configuration object: a:llm b:llm (>a a>b b>)
@dataclass
class Settings:
    names: list = field(default_factory=lambda: ["a", "b"])

g = StateGraph(State)
g.add_sequence([(name, step) for name in Settings().names])
g.add_edge(START, "a")
g.add_edge("b", END)
graph = g.compile()

# by a method of an object without a name: a:llm (>a a>)
class Factory:
    def __init__(self, name):
        self.name = name

    def create(self):
        g = StateGraph(State)
        g.add_node(self.name, step)
        g.set_entry_point(self.name)
        g.set_finish_point(self.name)
        return g.compile()

graph = Factory("a").create()

# in a chain: a:llm b:llm (>a a>b b>)
app = (
    StateGraph(State).add_node("a", step).add_node("b", step)
    .add_edge(START, "a").add_edge("a", "b").add_edge("b", END).compile()
)

# by a function that is called: a:llm (>a a>)
def build(name):
    g = StateGraph(State)
    g.add_node(name, step)
    g.set_entry_point(name)
    g.set_finish_point(name)
    return g.compile()

graph = build("a")

# by a function that nothing calls: a:llm (>a a>)
def build(config):
    g = StateGraph(State)
    g.add_node("a", step)
    g.add_edge(START, "a")
    g.add_edge("a", END)
    return g

# with a condition that returns lists: a:llm b:llm c:llm (*a (*b (?c a>) b>) c>)
def choose(state):
    return ["a", "b"] if state else "c"

g = StateGraph(State)
for name in ["a", "b", "c"]:
    g.add_node(name, step)
    g.add_edge(name, END)
g.add_conditional_edges(START, choose, ["a", "b", "c"])

# with a condition whose result is not seen, so that it may be a list: a:llm b:llm (>a a*b a?) b>)
from somewhere import far
g = StateGraph(State)
g.add_node("a", step)
g.add_node("b", step)
g.add_edge(START, "a")
g.add_conditional_edges("a", lambda state: far(state), {"more": "b", "done": END})
g.add_edge("b", END)
graph = g.compile()

# with a condition whose result is a string, though not a known one: a:llm b:llm c:llm (>a a?b a?) b?c b?) c?a c?)
from somewhere import far
g = StateGraph(State)
g.add_node("a", step)
g.add_node("b", step)
g.add_node("c", step)
g.add_edge(START, "a")
g.add_conditional_edges("a", lambda state: state["text"], {"more": "b", "done": END})
g.add_conditional_edges("b", lambda state: f"{far(state)}", {"more": "c", "done": END})
g.add_conditional_edges("c", lambda state: "done" if state["text"] else far(state), {"more": "a", "done": END})
graph = g.compile()

# with a condition on a field, which has other values than its default: a:llm b:llm c:llm (>a a?b a?c b>) c>)
from pydantic import BaseModel
class Draft(BaseModel):
    approved: bool = False
def choose(state: Draft):
    return "b" if state.approved else "c"
g = StateGraph(Draft)
g.add_node("a", step)
g.add_node("b", step)
g.add_node("c", step)
g.add_edge(START, "a")
g.add_conditional_edges("a", choose)
g.add_edge("b", END)
g.add_edge("c", END)
graph = g.compile()

# with a condition that is declared to return a list: a:llm b:llm (*a (*b a>) b>)
def choose(state) -> list[str]:
    return state["text"]

g = StateGraph(State)
for name in ["a", "b"]:
    g.add_node(name, step)
    g.add_edge(name, END)
g.add_conditional_edges(START, choose, {"first": "a", "second": "b"})

# with commands that lead to several nodes: boss:llm a:llm b:llm (>boss boss*a boss*b a>) b>)
def boss(state):
    llm.invoke(state)
    return Command(goto=["a", "b"])

g = StateGraph(State)
g.add_node("boss", boss)
g.add_edge(START, "boss")
for name in ["a", "b"]:
    g.add_node(name, step)
    g.add_edge(name, END)

# with several commands: boss:llm a:llm b:llm (>boss boss*a boss*b a>) b>)
def boss(state):
    llm.invoke(state)
    return [Command(goto="a"), Command(goto="b")]

g = StateGraph(State)
g.add_node("boss", boss)
g.add_edge(START, "boss")
for name in ["a", "b"]:
    g.add_node(name, step)
    g.add_edge(name, END)

# in the main part: a:llm (>a a>)
def main():
    g = StateGraph(State)
    g.add_node("a", step)
    g.add_edge(START, "a")
    g.add_edge("a", END)
    return g.compile()

if __name__ == "__main__":
    app = main()
    print(app.invoke({"text": "x"}))

# by a class: model:llm act:tool+mail (>model model?act model?) act>model
class Agent:
    def __init__(self, model, tools):
        self.tools = {one.name: one for one in tools}
        graph = StateGraph(State)
        graph.add_node("model", self.call_model)
        graph.add_node("act", self.act)
        graph.add_conditional_edges("model", self.has_call, {True: "act", False: END})
        graph.add_edge("act", "model")
        graph.set_entry_point("model")
        self.graph = graph.compile()

    def has_call(self, state):
        return len(state["text"]) > 0

    def call_model(self, state):
        return {"text": self.model.invoke(state["text"])}

    def act(self, state):
        return {"text": self.tools[state["name"]].invoke(state["args"])}

agent = Agent(None, [mail])

# with values that are used many times: a:router b:llm (>a a?b a?) b>)
def choose(state):
    one = [state["text"]]
    two = [one, one, one, one, one, one, one, one]
    three = [two, two, two, two, two, two, two, two]
    four = [three, three, three, three, three, three, three, three]
    five = [four, four, four, four, four, four, four, four]
    six = [five, five, five, five, five, five, five, five]
    if six:
        return Command(goto="b", update={"text": six})
    return Command(goto=END, update={"text": six})
g = StateGraph(State)
g.add_node("a", choose)
g.add_node("b", step)
g.add_edge(START, "a")
g.add_edge("b", END)
graph = g.compile()

# with a path map that is unknown: a:llm b:llm (>a a?a a?b a?) b>)
from far.away import targets
g = StateGraph(State)
g.add_node("a", step)
g.add_node("b", step)
g.add_edge(START, "a")
g.add_conditional_edges("a", lambda state: "on" if state else "off", targets)
g.add_edge("b", END)
graph = g.compile()

# with an object that is called in another function: a:tool+far.look (>a a>)
class Look:
    async def __call__(self, session):
        return await session.call_tool("far.look")
async def apply(what):
    async with Session() as session:
        return await what(session)
async def a(state):
    return {"text": await apply(Look())}
g = StateGraph(State)
g.add_node(a)
g.add_edge(START, "a")
g.add_edge("a", END)
graph = g.compile()

# with an executor of an agent: a:tool+mail+look (>a a>)
from langchain.agents import AgentExecutor
from langchain.tools import Tool
class Helper:
    def __init__(self):
        self.tools = [mail, Tool(name="look", func=lambda text: text, description="Looks.")]
        self.runner = AgentExecutor(agent=object(), tools=self.tools)
    def process(self, text):
        return self.runner.invoke({"input": text})
def a(state):
    return {"text": Helper().process(state["text"])}
g = StateGraph(State)
g.add_node(a)
g.add_edge(START, "a")
g.add_edge("a", END)
graph = g.compile()

# with an agent whose tools are unknown: a:tool b:tool (>a a>b b>)
from langgraph.prebuilt import create_react_agent
def build(model, tools):
    by_name = {one.name: one for one in tools}
    def a(state):
        return create_react_agent(model, tools).invoke(state)
    def b(state):
        tool = by_name[state["name"]]
        return {"text": tool.invoke(state) if interrupt("?") else ""}
    g = StateGraph(State).add_sequence([a, b])
    g.add_edge(START, "a")
    g.add_edge("b", END)
    return g.compile()

# in a loop over pairs: a:llm b:llm c:llm (>a a>b b>c c>)
steps = [("a", step), ("b", step), ("c", step)]
g = StateGraph(State)
previous = START
for name, function in steps:
    g.add_node(name, function)
    g.add_edge(previous, name)
    previous = name
g.add_edge(previous, END)
graph = g.compile()

# in a loop over positions: a:llm b:llm (>a a>b b>)
steps = [("a", step), ("b", step)]
g = StateGraph(State)
for i in range(len(steps)):
    name, function = steps[i]
    g.add_node(name, function)
    if i > 0:
        g.add_edge(steps[i - 1][0], name)
g.set_entry_point(steps[0][0])
g.set_finish_point(steps[-1][0])
graph = g.compile()

# with pairs of names of an enumeration: a:llm b:llm (>a a>b b>)
from enum import StrEnum
from itertools import pairwise

class Name(StrEnum):
    A = "a"
    B = "b"

def text_of(name):
    if isinstance(name, Name):
        return name.value
    return name

def build():
    g = StateGraph(State)
    g.add_node(Name.A, step)
    g.add_node(Name.B, step)
    for first, second in pairwise([START, Name.A, Name.B, END]):
        g.add_edge(text_of(first), text_of(second))
    return g.compile()

# a node that is added under a condition only: a:llm (>a a>)
def build(other=END, function=None):
    g = StateGraph(State)
    g.add_node("a", step)
    if other != END and function is not None:
        g.add_node(other, function)
    g.add_edge(START, "a")
    g.add_edge("a", other)
    return g.compile()

# with the names of functions: step:passthrough other:llm (>step step>other other>)
def rename(function):
    @functools.wraps(function)
    def inner(*args): return function(*args)
    return inner

def other(state): return {}
import functools
def made(state): return {}
made.__name__ = "other"
g = StateGraph(State)
for one in (rename(step), made):
    g.add_node(one.__name__, one)
g.add_edge(START, rename(step).__name__)
g.add_edge(step.__name__, other.__name__)
g.add_edge(made.__name__, END)
graph = g.compile()

# with names that are unknown: agent.name:llm last:llm (>agent.name agent.name>last last>)
def build(agents):
    g = StateGraph(State)
    for agent in agents:
        g.add_node(agent.name, step)
    g.add_node("last", step)
    for agent in agents:
        g.add_edge(START, agent.name)
        g.add_edge(agent.name, "last")
    g.add_edge("last", END)
    return g.compile()

# a supervisor: supervisor/agent:llm supervisor/tools:tool+transfer_to_maths+transfer_to_mailer maths/agent:llm mailer/agent:llm mailer/tools:tool+mail (>supervisor/agent supervisor/agent?supervisor/tools supervisor/agent?) supervisor/tools>supervisor/agent supervisor/tools*maths/agent supervisor/tools*mailer/agent maths/agent>supervisor/agent mailer/agent?mailer/tools mailer/tools>mailer/agent mailer/agent?supervisor/agent
from langgraph.prebuilt import create_react_agent
from langgraph_supervisor import create_supervisor
maths = create_react_agent("openai:gpt", tools=[], name="maths")
mailer = create_react_agent("openai:gpt", tools=[mail], name="mailer")
workflow = create_supervisor([maths, mailer], model="openai:gpt", prompt="Lead.")
app = workflow.compile()

# a swarm: one/agent:llm one/tools:tool+transfer_to_two two/agent:llm two/tools:tool+mail+transfer_to_one (?one/agent (?two/agent one/agent?one/tools one/agent?) one/tools>one/agent one/tools?two/agent two/agent?two/tools two/agent?) two/tools>two/agent two/tools?one/agent
from langgraph.prebuilt import create_react_agent
from langgraph_swarm import create_handoff_tool, create_swarm
one = create_react_agent("openai:gpt", [create_handoff_tool(agent_name="two")], name="one")
two = create_react_agent("openai:gpt", [mail, create_handoff_tool(agent_name="one")], name="two")
app = create_swarm([one, two], default_active_agent="one").compile()

# with names made up in a loop: w0:llm w1:llm (>w0 w0>) (>w1 w1>)
g = StateGraph(State)
for index in range(2):
    name = f"w{index}"
    g.add_node(name, step)
    g.add_edge(START, name)
    g.add_edge(name, END)
graph = g.compile()

# with a map made of a list: boss:llm a:llm b:llm (>boss boss?a boss?b boss?) a>boss b>boss
members = ["a", "b"]
g = StateGraph(State)
g.add_node("boss", step)
for name in members:
    g.add_node(name, step)
    g.add_edge(name, "boss")
ways = {name: name for name in members}
ways["FINISH"] = END
g.add_conditional_edges("boss", lambda state: state["text"], ways)
g.add_edge(START, "boss")
graph = g.compile()

# nodes made by a factory: a:router b:llm (>a a?b a?) b>)
def make(*targets):
    def node(state):
        return Command(goto=targets[len(state["text"]) % len(targets)])
    return node

g = StateGraph(State)
g.add_node("a", make("b", END))
g.add_node("b", step)
g.add_edge(START, "a")
g.add_edge("b", END)
graph = g.compile()

# a condition with a literal: a:llm b:llm (>a a?b a?) b>)
Where = Literal["b", "__end__"]

def after(state) -> Where:
    return state["text"]

g = StateGraph(State)
g.add_node("a", step)
g.add_node("b", step)
g.add_edge(START, "a")
g.add_conditional_edges("a", after)
g.add_edge("b", END)
graph = g.compile()

# a wrapper around an imported function: a:llm (>a a>)
import functools
from far.away import plain

other = functools.wraps(plain)(functools.partial(plain, 1))
g = StateGraph(State)
g.add_node("a", step)
g.add_edge(START, "a")
g.add_edge("a", END)
graph = g.compile()

# nothing of the condition known: a:llm (>a a?a a?)
g = StateGraph(State)
g.add_node("a", step)
g.add_edge(START, "a")
g.add_conditional_edges("a", lambda state: state["text"])
graph = g.compile()

# a person, by an import inside: ask:human send:tool+mail! (>ask ask>send send>)
def ask(state):
    from langgraph.types import interrupt as pause
    return {"text": pause("?")}

g = StateGraph(State)
g.add_node(ask)
g.add_node("send", ToolNode([mail]))
g.add_sequence([]) if False else None
g.add_edge(START, "ask")
g.add_edge("ask", "send")
g.add_edge("send", END)
graph = g.compile(interrupt_before=["send"])

# an agent with a tool of the provider: model:tool+web_search tools:tool+mail (>model model?tools model?) tools?model
agent = create_agent("openai:gpt", tools=[mail, {"type": "web_search"}])

# an agent in a graph: s/model:llm s/tools:tool+mail b:llm (>s/model s/model?s/tools s/model?b s/tools?s/model b>)
worker = create_agent("openai:gpt", [mail])
g = StateGraph(State)
g.add_node("s", worker)
g.add_node("b", step)
g.add_edge(START, "s")
g.add_edge("s", "b")
g.add_edge("b", END)
graph = g.compile()

# an edge under a condition: a:llm b:llm (>a a>b a>) b>)
import os
g = StateGraph(State)
g.add_node("a", step)
g.add_node("b", step)
g.add_edge(START, "a")
if os.environ.get("LONG"):
    g.add_edge("a", "b")
else:
    g.add_edge("a", END)
g.add_edge("b", END)
graph = g.compile()

# a function that is defined elsewhere: a:llm b:llm (>a a>b a*a a?) b>)
from somewhere import far
g = StateGraph(State)
g.add_node("a", far)
g.add_node("b", step)
g.add_edge(START, "a")
g.add_edge("a", "b")
g.add_edge("b", END)
graph = g.compile()

# sends: plan:llm work:llm (>plan plan*work work>)
g = StateGraph(State)
g.add_node("plan", step)
g.add_node("work", step)
g.add_edge(START, "plan")
g.add_conditional_edges("plan", lambda s: [Send("work", {"text": t}) for t in s["text"]], ["work"])
g.add_edge("work", END)
graph = g.compile()

# tools of one node that go on: a:tool+to_b+to_c b:llm c:llm (>a a*b a*c
@tool
def to_b():
    "Goes on."
    return Command(goto="b")

@tool
def to_c():
    "Goes on."
    return Command(goto="c")
g = StateGraph(State)
g.add_node("a", ToolNode([to_b, to_c]))
g.add_node("b", step)
g.add_node("c", step)
g.add_edge(START, "a")
graph = g.compile()

# a subgraph that goes on to several nodes: a/x:llm b:llm c:llm (>a/x a/x*b a/x*c
inner = StateGraph(State)
inner.add_node("x", lambda s: Command(goto=[Send("b", s), Send("c", s)], graph=Command.PARENT))
inner.add_edge(START, "x")
g = StateGraph(State)
g.add_node("a", inner.compile())
g.add_node("b", step)
g.add_node("c", step)
g.add_edge(START, "a")
graph = g.compile()

# commands with unknown targets: a:router b:llm c:passthrough (>a a?b a?a a?c a?) b*b b*a b*c b?) c*b c*a c*c c?)
class Planned(State):
    name: str
    names: list[str]
def a(s: Planned):
    return Command(goto=s["name"])
g = StateGraph(Planned)
g.add_node("a", a)
g.add_node("b", lambda s: Command(goto=s["names"]))
g.add_node("c", lambda s: Command(goto=unknown(s)))
g.add_edge(START, "a")
graph = g.compile()

# a try around an import: a:llm (>a a>)
try:
    from fast import step as chosen
except ImportError:
    chosen = step
g = StateGraph(State)
g.add_node("a", step)
g.add_edge(START, "a")
g.add_edge("a", END)
graph = g.compile()

# under another name of the package: a:llm (>a a>)
import langgraph.graph as lg
g = lg.StateGraph(State)
g.add_node("a", step)
g.add_edge(lg.START, "a")
g.add_edge("a", lg.END)
graph = g.compile()

# by a class that nothing makes an object of: ask:llm act:tool+mail (>ask ask?act ask?) act>ask
import functools
from far.away import Base

class Team(Base):
    def __init__(self, model, tools):
        self.model = model.bind_tools(tools)
        self.__graph = self.__build()

    @staticmethod
    def persona(state, name, model):
        return {"text": model.invoke(state["text"])}

    @staticmethod
    def route(state, name) -> str:
        goes_to: str = ""
        if hasattr(state["text"], name):
            goes_to = "act"
        else:
            goes_to = END
        return goes_to

    def __build(self):
        builder = StateGraph(state_schema=State)
        builder.add_node(node="ask", action=functools.partial(self.persona, name="ask", model=self.model))
        builder.add_node(node="act", action=ToolNode(tools=[mail]))
        builder.add_edge(start_key=START, end_key="ask")
        builder.add_conditional_edges(source="ask", path=functools.partial(self.route, name="ask"), path_map=["act", END])
        builder.add_edge(start_key="act", end_key="ask")
        return builder.compile(name="team")

# by a method that nothing calls: a:llm (>a a>)
class Flow:
    def step(self, state):
        return {}

    def build(self):
        g = StateGraph(State)
        g.add_node("a", self.step)
        g.add_edge(START, "a")
        g.add_edge("a", END)
        return g.compile()

# with flags that have defaults: a:llm (>a a>)
def build(model, *, more=False, checkpointer=None):
    if more and checkpointer is None:
        raise ValueError("more needs a checkpointer")
    g = StateGraph(State)
    g.add_node("a", step)
    if more:
        g.add_node("b", step)
    g.add_edge(START, "a")
    g.add_edge("a", "b" if more else END)
    return g.compile(checkpointer=checkpointer)

# a dataclass with the names: a:llm b:llm (>a a>b b>)
from dataclasses import dataclass

@dataclass
class Names:
    first: str
    second: str = "b"

names = Names("a")
g = StateGraph(State)
g.add_node(names.first, step)
g.add_node("b", step)
g.add_edge(START, names.first)
g.add_edge(names.first, "b")
g.add_edge("b", END)
graph = g.compile()
"""


def sections(text: str) -> dict[str, tuple[str, str]]:
    """The code sections under headings `# description: expected graph`."""
    sections = {}
    for section in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        heading, _, code = section.partition("\n")
        name, _, expected = heading.partition(": ")
        sections[name] = expected, code
    return sections


CASES = sections(STYLES)


@pytest.mark.parametrize("name", CASES)
def test_a_program_in_some_style_gives_its_graph(write: Write, name: str) -> None:
    """The source alone determines the graph, in any style of building it."""
    expected, code = CASES[name]
    graph = graph_of_source(write("program.py", HEAD + code))
    assert sorted(summary(graph).split()) == sorted(expected.split())


def test_nothing_is_imported_or_run(write: Write, capfd: pytest.CaptureFixture[str]) -> None:
    """A program that exits, prints, or has a failing import, is read without loading any module."""
    code = 'import sys, no_such_module\nprint("ran")\nopen("made", "w")\n' + CASES["at the top of the file"][1]
    path = write("program.py", HEAD + code + "\nsys.exit(3)\n")
    before = set(sys.modules)
    graph_of_source(path)
    assert capfd.readouterr().out == ""
    assert not {name for name in set(sys.modules) - before if not name.startswith("guardagent")}
    assert not Path("made").exists()


def test_assumptions_are_noted(write: Write) -> None:
    """An edge that is added under a condition is in the graph, with a note."""
    graph = graph_of_source(write("program.py", HEAD + CASES["an edge under a condition"][1]))
    assert any("'add_edge' is called under a condition" in note for note in graph.notes)


def test_an_unknown_function_widens_its_node(write: Write) -> None:
    """Its commands could lead anywhere; a note gives the reason."""
    graph = graph_of_source(write("program.py", HEAD + CASES["a function that is defined elsewhere"][1]))
    assert graph.by_id["a"].metadata["widened"]["reason"] == "'somewhere.far' is defined elsewhere"
    assert any("'somewhere.far' is defined elsewhere" in note for note in graph.notes)


def test_a_node_that_is_too_long_to_be_read_may_lead_anywhere(write: Write) -> None:
    """A command after the end of the budget is not missing from the graph."""
    shown = "    print(" + ", ".join(map(str, range(60))) + ")\n"
    code = f"""def a(state):
{shown * 400}    return Command(goto="b")
g = StateGraph(State)
g.add_node(a)
g.add_node("b", step)
g.add_edge(START, "a")
graph = g.compile()
"""
    graph = graph_of_source(write("program.py", HEAD + code))
    assert {edge.target for edge in graph.edges if edge.source == "a"} >= {"b", END}
    assert "widened" in graph.by_id["a"].metadata


def test_another_file_of_the_program_is_read(write: Write) -> None:
    """Imports from neighbouring files are resolved, including relative ones."""
    write("nodes.py", "from langgraph.types import interrupt\ndef ask(state): return {'x': interrupt('?')}\n")
    code = (
        'from nodes import ask\ng = StateGraph(State)\ng.add_node(ask)\ng.add_edge(START, "ask")\ngraph = g.compile()\n'
    )
    assert graph_of_source(write("program.py", HEAD + code)).by_id["ask"].kind == "human"
    write("pack/__init__.py", "")
    write("pack/nodes.py", "def ask(state): return input()\n")
    relative = HEAD + code.replace("from nodes", "from .nodes")
    assert graph_of_source(write("pack/program.py", relative)).by_id["ask"].kind == "human"


def test_a_node_has_the_location_of_its_definition(write: Write) -> None:
    """File and line are those of the function, in its own file."""
    path = write("program.py", HEAD + CASES["a person, by an import inside"][1])
    node = graph_of_source(path).by_id["ask"]
    assert node.metadata["file"] == str(path)
    assert path.read_text().splitlines()[node.metadata["line"] - 1] == "def ask(state):"


def test_one_of_several_workflows_is_chosen_and_the_others_are_named(write: Write) -> None:
    """Usual names come first; a note lists the others, which can be chosen by name."""
    code = CASES["at the top of the file"][1]
    other = 'h = StateGraph(State)\nh.add_node("z", step)\nh.add_edge(START, "z")\nother = h.compile()\n'
    path = write("program.py", HEAD + code + other)
    assert "a" in graph_of_source(path).by_id
    assert any("other" in note for note in graph_of_source(path).notes)
    assert "z" in graph_of_source(path, "other").by_id


def test_a_file_without_a_workflow_is_refused(write: Write) -> None:
    """Each kind of wrong input has a message with what was expected."""
    with pytest.raises(InputError, match="defines no workflow"):
        graph_of_source(write("program.py", "x = 1\n"))
    with pytest.raises(ContentError, match=r"program\.py:1: not Python"):
        graph_of_source(write("program.py", "def (:\n"))
    with pytest.raises(InputError, match="cannot be read"):
        graph_of_source(Path("nowhere.py"))
    with pytest.raises(UnknownNameError, match="did you mean 'graph'"):
        graph_of_source(write("program.py", HEAD + CASES["at the top of the file"][1]), "grap")


def test_a_program_that_never_ends_is_read(write: Write) -> None:
    """Endless loops and recursions are followed up to a limit."""
    code = """
    def deep(n): return deep(n + 1)
    def both(n): return both(n) or both(n + 1) or other(n)
    def other(n): return both(n)
    deep(0), both(0)
    while True:
        if not deep(1): break
    for i in range(10**9): deep(i)
    x = "a"
    for i in range(60): x = x + x
    """
    path = write("program.py", HEAD + textwrap.dedent(code) + CASES["at the top of the file"][1])
    assert "b" in graph_of_source(path).by_id


def test_source_and_object_give_the_same_graph() -> None:
    """Both agree on every program of the tests, and on the reference programs."""
    pytest.importorskip("langgraph", reason="LangGraph is not installed")
    pytest.importorskip("langchain", reason="LangChain is not installed")
    from guardagent.workflow.extraction import extract

    beside = Path(__file__).parents[4] / "shared" / "data" / "workflows" / "programs"
    for path in [*sorted(PROGRAMS.glob("langgraph_*.py")), *beside.glob("langgraph_*.py")]:
        for name, (build, _) in load(path).CASES.items():
            of_object, of_source = extract(build(), name), graph_of_source(path, build.__name__)
            assert summary(of_source) == summary(of_object), name
