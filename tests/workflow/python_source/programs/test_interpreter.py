"""Graphs are read from the ways in which real programs build them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from guardagent.workflow.model.graph import END, START
from guardagent.workflow.python_source.source_graphs import graph_of_source

HEAD = """
from typing import TypedDict
from langgraph.graph import END, START, StateGraph

class State(TypedDict):
    text: str

def step(state):
    return {"text": "done"}

def wired(g, *names):
    for name in names:
        g.add_node(name, step)
    for one, other in zip((START, *names), (*names, END)):
        g.add_edge(one, other)
    return g
"""

PATTERNS = """
# a graph kept in self, built by a method that __init__ calls: a b
class Bot:
    def __init__(self):
        self.graph = None
        self._setup()
    def _setup(self):
        builder = StateGraph(State)
        wired(builder, "a", "b")
        self.graph = builder.compile()

# a builder in self, compiled by another method: a b
class Bot:
    def __init__(self):
        self.workflow = StateGraph(State)
        self._add()
    def _add(self):
        wired(self.workflow, "a", "b")
    def build(self):
        return self.workflow.compile()

# a property: a
class Bot:
    @property
    def graph(self):
        return wired(StateGraph(State), "a").compile()

# a cached property: a
from functools import cached_property
class Bot:
    @cached_property
    def graph(self):
        return wired(StateGraph(State), "a").compile()

# a class method: a
class Bot:
    @classmethod
    def create(cls):
        return wired(StateGraph(State), "a").compile()

# a graph that setup stores: a
class Bot:
    async def setup(self, tools=None):
        self.graph = wired(StateGraph(State), "a").compile()

# a function with required parameters: a
def get_graph(settings, *, debug):
    return wired(StateGraph(State), "a").compile()

# used where it is made: a
async def main():
    result = await wired(StateGraph(State), "a").compile().ainvoke({"text": ""})
    print(result)

# in a handler: a
from fastapi import FastAPI
app = FastAPI()
@app.post("/chat")
async def chat(request):
    graph = wired(StateGraph(State), "a").compile()
    return await graph.ainvoke({"text": request.text})

# in the main part: a
if __name__ == "__main__":
    print(wired(StateGraph(State), "a").compile().invoke({}))

# an optional import: a
try:
    from langgraph.graph import StateGraph
except ImportError:
    StateGraph = None
graph = wired(StateGraph(State), "a").compile()

# a stub for an optional import: a
try:
    from langgraph.graph import StateGraph
except ImportError:
    class StateGraph:
        def __init__(self, *args):
            pass
graph = wired(StateGraph(State), "a").compile()

# names from a known table: a b
NAMES = {"first": "a", "second": "b"}
graph = wired(StateGraph(State), *[NAMES[key] for key in NAMES]).compile()

# names from f-strings and constants: node_a node_b
PREFIX = "node" + "_"
graph = wired(StateGraph(State), *(f"{PREFIX}{one}" for one in ("a", "b"))).compile()

# members of an enumeration: a b
from enum import Enum, StrEnum
class Node(StrEnum):
    A = "a"
    B = "b"
class Plain(Enum):
    B = "b"
graph = wired(StateGraph(State), Node.A, Plain.B.value).compile()

# a method by its name: a
class Bot:
    def __init__(self):
        g = StateGraph(State)
        for name in ("a",):
            g.add_node(name, getattr(self, f"do_{name}"))
        g.add_edge(START, "a")
        self.graph = g.compile()
    def do_a(self, state):
        return {}

# setattr: a
class Bot:
    def __init__(self):
        setattr(self, "graph", wired(StateGraph(State), "a").compile())

# keywords from a known table: a
OPTIONS = {"node": "a", "action": step}
g = StateGraph(State)
g.add_node(**OPTIONS)
g.set_entry_point("a")

# a configuration object: a b
from dataclasses import dataclass, field
@dataclass
class Config:
    first: str = "a"
    second: str = "x"
config = Config(second="b")
graph = wired(StateGraph(State), config.first, config.second).compile()

# match: a
kind = "x"
match kind:
    case "x":
        graph = wired(StateGraph(State), "a").compile()
    case _:
        graph = None

# walrus: a
if (graph := wired(StateGraph(State), "a").compile()):
    pass

# an asynchronous context: a
async def main():
    async with saver() as memory:
        async for name in names():
            pass
        graph = wired(StateGraph(State), "a").compile(checkpointer=memory)
        return graph

# global: a
graph = None
def setup():
    global graph
    graph = wired(StateGraph(State), "a").compile()
setup()

# a conditional expression: a
FAST = True
graph = wired(StateGraph(State), "a" if FAST else "b").compile()

# partial: a
from functools import partial
make = partial(wired, StateGraph(State))
graph = make("a").compile()
"""

CASES = [part.partition("\n") for part in re.split(r"\n# ", PATTERNS)[1:]]


def nodes(path: Path) -> list[str]:
    """The nodes of the graph in a file, without its start and end."""
    return [node.id for node in graph_of_source(path).nodes if node.id not in {START, END}]


@pytest.mark.parametrize(("title", "code"), [(title, code) for title, _, code in CASES])
def test_a_pattern_is_read(title: str, code: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(HEAD + code)
    assert nodes(path) == title.rpartition(": ")[2].split()
